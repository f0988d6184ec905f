// What it costs a row of 512 int64 values to get into a batch: gathered row by row from a large block, as by filters
// and shuffles, and in runs from blocks that batches do not end with. The floor is `memcpy` of the same rows, from and
// to the same amounts of memory. `items_per_second` counts rows. Each run first checks what comes out.
#include <cstring>
#include <stdexcept>
#include <vector>

#include <benchmark/benchmark.h>

#include "millrace/ops/batch/batch.h"

namespace millrace {
namespace {

constexpr size_t kLength = 512;
constexpr size_t kRowBytes = kLength * sizeof(int64_t);
constexpr size_t kBatch = 128;
constexpr size_t kRunRows = 48;  // of a block
constexpr size_t kBlocks = 128;  // 24 MB of them: more than a core's cache holds

// Row r is full of r.
void fill_rows(std::span<int64_t> values, size_t first) {
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(first + i / kLength);
}

void check_rows(std::span<const int64_t> values, std::span<const size_t> rows) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != static_cast<int64_t>(rows[i / kLength])) throw std::logic_error("a wrong row");
  }
}

SchemaPtr row_schema() {
  return std::make_shared<const Schema>(
      std::vector<FeatureSpec>{{.name = "input_ids", .dtype = DType::kInt64, .shape = {kLength}}});
}

// As many batches of rows, each from anywhere.
std::vector<std::vector<size_t>> random_batches(size_t num_rows) {
  std::vector<std::vector<size_t>> batches(num_rows / kBatch, std::vector<size_t>(kBatch));
  uint64_t random = 1;
  for (std::vector<size_t>& batch : batches) {
    for (size_t& row : batch) row = ((random = random * 6364136223846793005U + 1442695040888963407U) >> 33) % num_rows;
  }
  return batches;
}

// As of a pipeline: some batches are held by whoever comes after.
constexpr size_t kHeld = 4;

void gather(benchmark::State& state) {
  const auto num_rows = static_cast<size_t>(state.range(0));
  const auto batches = random_batches(num_rows);
  BufferPool pool;
  Column values = Column::fixed(pool, DType::kInt64, {kLength}, num_rows);
  fill_rows(values.mutable_values<int64_t>(), 0);
  const Block rows(row_schema(), {values}, num_rows);
  check_rows(rows.select(batches[0], pool).column(0).values<int64_t>(), batches[0]);
  std::vector<Block> held(kHeld);
  size_t next = 0;
  for (auto _ : state) {
    Block& out = held[next % kHeld];
    out = Block();
    out = rows.select(batches[next++ % batches.size()], pool);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kBatch));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(kBatch * kRowBytes));
}

void gather_floor(benchmark::State& state) {
  const auto num_rows = static_cast<size_t>(state.range(0));
  const auto batches = random_batches(num_rows);
  std::vector<int64_t> rows(num_rows * kLength);
  fill_rows(rows, 0);
  std::vector<std::vector<int64_t>> held(kHeld, std::vector<int64_t>(kBatch * kLength));
  const auto copy = [&](const std::vector<size_t>& batch, std::vector<int64_t>& out) {
    for (size_t i = 0; i < kBatch; ++i) {
      std::memcpy(out.data() + i * kLength, rows.data() + batch[i] * kLength, kRowBytes);
    }
  };
  copy(batches[0], held[0]);
  check_rows(held[0], batches[0]);
  size_t next = 0;
  for (auto _ : state) {
    copy(batches[next % batches.size()], held[next % kHeld]);
    ++next;
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kBatch));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(kBatch * kRowBytes));
}

// The same rows forever, in blocks of `kRunRows`.
class Rows final : public Stage {
 public:
  explicit Rows(BufferPool& pool) {
    for (size_t b = 0; b < kBlocks; ++b) {
      Column values = Column::fixed(pool, DType::kInt64, {kLength}, kRunRows);
      fill_rows(values.mutable_values<int64_t>(), b * kRunRows);
      blocks_.emplace_back(row_schema(), Block::Columns{values}, kRunRows);
    }
  }
  Poll next(Block& out) override {
    out = blocks_[next_++ % blocks_.size()];
    return Poll::kBlock;
  }

 private:
  std::vector<Block> blocks_;
  size_t next_ = 0;
};

void batch(benchmark::State& state) {
  struct NoWaker final : Waker {
    void wake() noexcept override {}
  };
  BufferPool pool;
  NoWaker waker;
  InlineLanes lanes;
  const BatchOperator op(row_schema(), kBatch);
  const OpenStage rows = [&pool](const StageContext&) { return std::make_unique<Rows>(pool); };
  const auto stage = op.open({rows}, {pool, waker, {}, lanes});
  Block first;
  size_t row = 0;
  while (row < kBatch * kRunRows) {
    if (stage->next(first) != Poll::kBlock) throw std::logic_error("the stream ended");
    for (size_t b = 0; b < first.num_elements(); ++b) {
      std::vector<size_t> expected(kBatch);
      for (size_t& number : expected) number = row++ % (kBlocks * kRunRows);
      check_rows(first.column(0).values<int64_t>(b), expected);
    }
  }
  first = Block();
  std::vector<Block> held(kHeld);
  size_t next = 0;
  int64_t num_rows = 0;
  for (auto _ : state) {
    Block& out = held[next++ % kHeld];
    out = Block();
    if (stage->next(out) != Poll::kBlock) throw std::logic_error("the stream ended");
    num_rows += static_cast<int64_t>(out.num_elements() * kBatch);
  }
  state.SetItemsProcessed(num_rows);
  state.SetBytesProcessed(num_rows * static_cast<int64_t>(kRowBytes));
}

void batch_floor(benchmark::State& state) {
  std::vector<int64_t> rows(kBlocks * kRunRows * kLength);
  fill_rows(rows, 0);
  std::vector<std::vector<int64_t>> held(kHeld, std::vector<int64_t>(kBatch * kLength));
  size_t next = 0;
  for (auto _ : state) {
    std::memcpy(held[next % kHeld].data(), rows.data() + next % (kBlocks * kRunRows / kBatch) * kBatch * kLength,
                kBatch * kRowBytes);
    ++next;
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kBatch));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(kBatch * kRowBytes));
}

// Rows that a core's second cache holds, and 64 MB.
BENCHMARK(gather)->Arg(256)->Arg(16384);
BENCHMARK(gather_floor)->Arg(256)->Arg(16384);
BENCHMARK(batch);
BENCHMARK(batch_floor);

}  // namespace
}  // namespace millrace

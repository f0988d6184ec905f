// What the operators of a serial chain cost a row. Floors: for interleave, writing down in turn where each source's
// rows are; for shuffle, copying each row to a place and writing down where the next to leave is, of an order that is
// known. `items_per_second` counts rows. Each run first checks what comes out.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include <benchmark/benchmark.h>

#include "millrace/formats/columnar/block_builder.h"
#include "millrace/ops/batch/batch.h"
#include "millrace/ops/combine/interleave.h"
#include "millrace/ops/flow/rejection_resample.h"
#include "millrace/ops/flow/shuffle.h"
#include "millrace/ops/flow/take.h"
#include "millrace/ops/row_memory/row_store.h"

namespace millrace {
namespace {

struct NoWaker final : Waker {
  void wake() noexcept override {}
};

// Raw records of one size forever, as a reader gives them: views into chunks that are read once. `num_chunks` chunks
// in turn, so that their bytes come from memory or from the caches as those of a file would.
class Records final : public Stage {
 public:
  Records(BufferPool& pool, size_t record_bytes, size_t chunk_bytes, size_t num_chunks) {
    for (size_t c = 0; c < num_chunks; ++c) {
      const Buffer chunk = pool.allocate(chunk_bytes);
      std::fill_n(reinterpret_cast<char*>(chunk->data()), chunk_bytes, static_cast<char>(c));
      BlockBuilder builder(record_schema(), pool);
      builder.column(0).hold(chunk);
      const char* bytes = reinterpret_cast<const char*>(chunk->data());
      const size_t count = chunk_bytes / record_bytes;
      for (size_t i = 0; i < count; ++i) builder.column(0).append_view({bytes + i * record_bytes, record_bytes});
      builder.added_elements(count);
      blocks_.push_back(builder.finish());
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

// The same, copied to the store of who keeps them, as sources do.
class StoredRecords final : public Stage {
 public:
  StoredRecords(std::unique_ptr<Stage> records, const StageContext& context)
      : records_(std::move(records)), context_(context) {}
  Poll next(Block& out) override {
    const Poll poll = records_->next(out);
    const auto rows = out.column(0).values<std::string_view>();
    Column column = Column::fixed(context_.pool, DType::kBytes, {}, rows.size());
    std::copy(rows.begin(), rows.end(), column.mutable_values<std::string_view>().begin());
    context_.row_store->put(column, {});
    out = Block(out.schema(), {std::move(column)}, rows.size());
    return poll;
  }

 private:
  const std::unique_ptr<Stage> records_;
  const StageContext context_;
};

class Bench {
 public:
  OpenStage stored_records(size_t record_bytes, size_t chunk_bytes, size_t num_chunks) {
    return [open = records(record_bytes, chunk_bytes, num_chunks)](const StageContext& context) {
      return std::make_unique<StoredRecords>(open(context), context);
    };
  }
  OpenStage records(size_t record_bytes, size_t chunk_bytes, size_t num_chunks) {
    return [=, this](const StageContext&) {
      return std::make_unique<Records>(pool_, record_bytes, chunk_bytes, num_chunks);
    };
  }
  OpenStage stage(const std::shared_ptr<const StageOperator>& op, const std::vector<OpenStage>& inputs) {
    return [=](const StageContext& context) { return op->open(inputs, context); };
  }
  // Counts rows; a few blocks are kept for a while, as by the stages that follow.
  void run(benchmark::State& state, const OpenStage& open, int64_t rows_before, size_t value_bytes) {
    const auto stage = open({pool_, waker_, {}, lanes_});
    Block block;
    int64_t rows = 0;
    while (rows < rows_before) {
      if (stage->next(block) != Poll::kBlock) throw std::logic_error("the stream ended");
      for (const std::string_view record : block.column(0).values<std::string_view>()) {
        if (record.size() != value_bytes || record.front() != record.back()) throw std::logic_error("a wrong record");
      }
      rows += block.num_rows();
    }
    rows = 0;
    std::vector<Block> recent(8);
    size_t next = 0;
    for (auto _ : state) {
      Block& out = recent[next++ % recent.size()];
      out = Block();
      if (stage->next(out) != Poll::kBlock) throw std::logic_error("the stream ended");
      rows += out.num_rows();
    }
    state.SetItemsProcessed(rows);
  }

 private:
  BufferPool pool_;
  NoWaker waker_;
  InlineLanes lanes_;
};

std::vector<OpenStage> many(const OpenStage& open, size_t count) { return std::vector<OpenStage>(count, open); }

void interleave_16(benchmark::State& state) {
  Bench bench;
  const auto interleave =
      std::make_shared<InterleaveOperator>(record_schema(), InterleaveOptions{.cycle_length = 16}, 16);
  bench.run(state, bench.stage(interleave, many(bench.records(100, 64 << 10, 4), 16)), 100000, 100);
}
BENCHMARK(interleave_16);

// What `Records` holds, without blocks around it.
struct Chunks {
  Chunks(size_t record_bytes, size_t chunk_bytes, size_t num_chunks) {
    for (size_t c = 0; c < num_chunks; ++c) {
      bytes.emplace_back(chunk_bytes, static_cast<char>(c));
      for (size_t i = 0; i < chunk_bytes / record_bytes; ++i) {
        records.emplace_back(bytes.back().data() + i * record_bytes, record_bytes);
      }
    }
  }
  std::vector<std::vector<char>> bytes;
  std::vector<std::string_view> records;
};

void interleave_16_floor(benchmark::State& state) {
  std::vector<Chunks> sources;
  sources.reserve(16);
  for (int s = 0; s < 16; ++s) sources.emplace_back(100, 64 << 10, 4);
  std::vector<std::string_view> block(kBlockElements);
  size_t next = 0;
  const size_t num_records = sources[0].records.size();
  for (auto _ : state) {
    for (size_t i = 0; i < block.size(); i += sources.size()) {
      for (size_t s = 0; s < sources.size(); ++s) block[i + s] = sources[s].records[next];
      if (++next == num_records) next = 0;
    }
    benchmark::DoNotOptimize(block.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(block.size()));
}
BENCHMARK(interleave_16_floor);

void interleave_16_batch_128(benchmark::State& state) {
  Bench bench;
  const auto interleave =
      std::make_shared<InterleaveOperator>(record_schema(), InterleaveOptions{.cycle_length = 16}, 16);
  const auto batch = std::make_shared<BatchOperator>(record_schema(), 128);
  bench.run(state, bench.stage(batch, {bench.stage(interleave, many(bench.records(100, 64 << 10, 4), 16))}), 100000,
            100);
}
BENCHMARK(interleave_16_batch_128);

// rows in the buffer, bytes of a record
void run_shuffle(benchmark::State& state, bool stored) {
  Bench bench;
  const auto record_bytes = static_cast<size_t>(state.range(1));
  const auto shuffle = std::make_shared<ShuffleOperator>(record_schema(), state.range(0));
  // 16 MB of chunks: more than a core's cache holds.
  const OpenStage source =
      stored ? bench.stored_records(record_bytes, 256 << 10, 64) : bench.records(record_bytes, 256 << 10, 64);
  bench.run(state, bench.stage(shuffle, {source}), 3 * state.range(0), record_bytes);
}
void shuffle(benchmark::State& state) { run_shuffle(state, false); }
// What lanes copy is in these, too.
void shuffle_stored(benchmark::State& state) { run_shuffle(state, true); }

void shuffle_floor(benchmark::State& state) {
  const auto num_rows = static_cast<size_t>(state.range(0));
  const auto record_bytes = static_cast<size_t>(state.range(1));
  const Chunks input(record_bytes, 256 << 10, 64);
  constexpr size_t kLine = 64;
  const size_t slot_bytes = (record_bytes + kLine - 1) / kLine * kLine;
  std::vector<char> memory(num_rows * slot_bytes);
  // A row takes the place of the one that left before it.
  std::vector<uint32_t> places(num_rows);
  for (uint32_t i = 0; i < num_rows; ++i) places[i] = i;
  uint64_t random = 1;
  for (size_t i = num_rows - 1; i > 0; --i) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    std::swap(places[i], places[(random >> 33) % (i + 1)]);
  }
  std::vector<std::string_view> block(kBlockElements);
  size_t next = 0;
  size_t next_place = 0;
  const auto fill_block = [&] {
    for (std::string_view& leaving : block) {
      char* place = memory.data() + places[next_place] * slot_bytes;
      if (++next_place == num_rows) next_place = 0;
      const char* next_row = memory.data() + places[next_place] * slot_bytes;
      for (size_t line = 0; line < slot_bytes; line += kLine) __builtin_prefetch(next_row + line, 1);
      std::memcpy(place, input.records[next].data(), record_bytes);
      if (++next == input.records.size()) next = 0;
      leaving = {next_row, record_bytes};
    }
  };
  for (size_t rows = 0; rows < num_rows + block.size(); rows += block.size()) fill_block();
  for (const std::string_view record : block) {
    if (record.front() != record.back()) throw std::logic_error("a wrong record");
  }
  for (auto _ : state) {
    fill_block();
    benchmark::DoNotOptimize(block.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(block.size()));
}

// 2^10, 2^14 and 2^18 rows; short records, and those of a masked language model.
void buffers(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({1024, 100})->Args({16384, 100})->Args({16384, 1400})->Args({262144, 100});
}
BENCHMARK(shuffle)->Apply(buffers);
BENCHMARK(shuffle_floor)->Apply(buffers);
BENCHMARK(shuffle_stored)->Apply(buffers);
BENCHMARK(shuffle_floor)->Apply(buffers)->Name("shuffle_stored_floor");

void interleave_shuffle_batch(benchmark::State& state) {
  Bench bench;
  const auto interleave =
      std::make_shared<InterleaveOperator>(record_schema(), InterleaveOptions{.cycle_length = 16}, 16);
  const auto shuffle = std::make_shared<ShuffleOperator>(record_schema(), 16384);
  const auto batch = std::make_shared<BatchOperator>(record_schema(), 128);
  const OpenStage interleaved = bench.stage(interleave, many(bench.records(1400, 256 << 10, 4), 16));
  bench.run(state, bench.stage(batch, {bench.stage(shuffle, {interleaved})}), 50000, 1400);
}
BENCHMARK(interleave_shuffle_batch);

// Numbers that come as 0 and 1 in turn, of which one in three of the ones stays; the items are those that come in.
void rejection_resample(benchmark::State& state) {
  BufferPool pool;
  NoWaker waker;
  InlineLanes lanes;
  const auto schema = std::make_shared<const Schema>(std::vector<FeatureSpec>{{"class", DType::kInt64, {}}});
  Column classes = Column::fixed(pool, DType::kInt64, {}, kBlockElements);
  for (size_t i = 0; i < kBlockElements; ++i) classes.mutable_values<int64_t>()[i] = static_cast<int64_t>(i % 2);
  class Classes final : public Stage {
   public:
    explicit Classes(Block block) : block_(std::move(block)) {}
    Poll next(Block& out) override {
      out = block_;
      return Poll::kBlock;
    }

   private:
    Block block_;
  };
  const RejectionResampleOperator op(schema, {.feature = "class", .target_distribution = {3, 1}});
  const OpenStage open = [&](const StageContext&) {
    return std::make_unique<Classes>(Block(schema, {classes}, kBlockElements));
  };
  const auto stage = op.open({open}, {pool, waker, {}, lanes});
  Block block;
  int64_t stayed = 0;
  for (int i = 0; i < 100; ++i) {
    if (stage->next(block) != Poll::kBlock) throw std::logic_error("the stream ended");
    stayed += block.num_rows();
  }
  const double share = static_cast<double>(stayed) / (100.0 * kBlockElements);
  if (share < 0.65 || share > 0.68) throw std::logic_error("another share stayed than two thirds");
  for (auto _ : state) {
    if (stage->next(block) != Poll::kBlock) throw std::logic_error("the stream ended");
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kBlockElements));
}
BENCHMARK(rejection_resample);

}  // namespace
}  // namespace millrace

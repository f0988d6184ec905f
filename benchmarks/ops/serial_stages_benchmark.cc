// What the operators of a serial chain cost a row. Each run first checks what comes out.
#include <chrono>
#include <stdexcept>

#include <benchmark/benchmark.h>

#include "formats/columnar/block_builder.h"
#include "ops/batch.h"
#include "ops/interleave.h"
#include "ops/rejection_resample.h"
#include "ops/shuffle.h"
#include "ops/take.h"

namespace millrace {
namespace {

struct NoWaker final : Waker {
  void wake() noexcept override {}
};

// Raw records of one size for ever, as a reader gives them: views into chunks that are read once. `num_chunks` chunks
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

class Bench {
 public:
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
    const auto begin = std::chrono::steady_clock::now();
    for (auto _ : state) {
      Block& out = recent[next++ % recent.size()];
      out = Block();
      if (stage->next(out) != Poll::kBlock) throw std::logic_error("the stream ended");
      rows += out.num_rows();
    }
    const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - begin;
    state.counters["ns_per_row"] = elapsed.count() / static_cast<double>(rows);
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
void shuffle(benchmark::State& state) {
  Bench bench;
  const auto record_bytes = static_cast<size_t>(state.range(1));
  const auto shuffle = std::make_shared<ShuffleOperator>(record_schema(), state.range(0));
  // 16 MB of chunks: more than a core's cache holds.
  bench.run(state, bench.stage(shuffle, {bench.records(record_bytes, 256 << 10, 64)}), 3 * state.range(0),
            record_bytes);
}
BENCHMARK(shuffle)
    ->Args({1024, 100})
    ->Args({16384, 100})
    ->Args({16384, 1400})
    ->Args({262144, 100})
    ->Args({262144, 1400});

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

// Numbers that come as 0 and 1 in turn, of which one in three of the ones stays; `ns_per_row` counts what comes in.
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
  int64_t rows = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (auto _ : state) {
    if (stage->next(block) != Poll::kBlock) throw std::logic_error("the stream ended");
    rows += kBlockElements;
  }
  const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - begin;
  state.counters["ns_per_row"] = elapsed.count() / static_cast<double>(rows);
}
BENCHMARK(rejection_resample);

}  // namespace
}  // namespace millrace

// What handing a block on costs: through the chain, the body and the ring of a segment, to a reader on another thread.
// The floor is the least that oneTBB needs for the same: a node that finds a free place in a ring and sends its number
// to a node that marks it as ready, for a reader that takes the places in order. CPU time of all threads, which other
// work on the machine changes less than wall time; `items_per_second` counts blocks. Each run checks that all come, in
// order.
#include <atomic>
#include <optional>
#include <stdexcept>
#include <vector>

#include <benchmark/benchmark.h>
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/task_arena.h>

#include "millrace/formats/columnar/block_builder.h"
#include "millrace/pipeline/run/segment.h"
#include "millrace/pipeline/worker_limit.h"

namespace millrace {
namespace {

constexpr size_t kSlots = 8;

/// Where the reader sleeps.
class Sleeper final : public Waker {
 public:
  void wake() noexcept override {
    woken_.store(1);
    woken_.notify_one();
  }
  void wait() {
    woken_.wait(0);
    woken_.store(0);
  }

 private:
  std::atomic<uint32_t> woken_{0};
};

/// The same block of one number forever, numbered by its rows.
class Blocks final : public Stage {
 public:
  explicit Blocks(Block block) : block_(std::move(block)) {}
  Poll next(Block& out) override {
    out = block_;
    return Poll::kBlock;
  }

 private:
  Block block_;
};

/// Passes every block on.
class PassOn final : public MapOperator {
 public:
  using MapOperator::MapOperator;
  std::string_view name() const override { return "pass_on"; }
  Block apply(Block block, BufferPool&) const override { return block; }
};

void hand_off(benchmark::State& state) {
  const auto threads = static_cast<int>(state.range(0));
  const WorkerLimit limit(threads);
  Executor executor(threads, int64_t{1} << 30);
  const auto schema = std::make_shared<const Schema>(std::vector<FeatureSpec>{{"value", DType::kInt64, {}}});
  const Block block(schema, {Column::fixed(executor.pool(), DType::kInt64, {}, 1)}, 1);
  SegmentStatistics statistics;
  StageStatistics map_statistics;
  InlineLanes lanes;
  Sleeper sleeper;
  {
    Segment segment(executor, {.credits = kSlots,
                               .schema = schema,
                               .maps = {std::make_shared<PassOn>(schema)},
                               .map_statistics = {&map_statistics},
                               .statistics = &statistics});
    auto reader = segment.open([&](const StageContext&) { return std::make_unique<Blocks>(block); },
                               {executor.pool(), sleeper, {}, lanes});
    int64_t next_row = 0;
    for (auto _ : state) {
      Block out;
      while (reader->next(out) == Poll::kPending) sleeper.wait();
      if (out.first_row != next_row++) throw std::logic_error("a wrong block");
    }
    reader = nullptr;
    executor.stop();
    segment.drop_chain();
  }
  state.SetItemsProcessed(state.iterations());
}

/// The ring and the two nodes alone.
class BareRing {
 public:
  explicit BareRing(int threads) : arena_(threads, /*reserved_for_masters=*/0) {
    arena_.execute([this] {
      graph_.emplace();
      body_.emplace(*graph_, tbb::flow::unlimited, [this](size_t position) {
        ready_[position % kSlots].store(position + 1);
        if (starved_.load() && tail_.load() == position && starved_.exchange(false)) sleeper_.wake();
        return tbb::flow::continue_msg();
      });
      poller_.emplace(*graph_, tbb::flow::unlimited, [this](size_t) {
        poll();
        return tbb::flow::continue_msg();
      });
    });
    wake();
  }
  ~BareRing() {
    stopping_.store(true);
    graph_->wait_for_all();
  }

  /// The position of the block that was taken.
  size_t next() {
    const size_t tail = tail_.load(std::memory_order_relaxed);
    std::atomic<size_t>& ready = ready_[tail % kSlots];
    while (ready.load() == 0) {
      starved_.store(true);
      if (ready.load() != 0) {
        starved_.store(false);
        break;
      }
      sleeper_.wait();
    }
    const size_t position = ready.exchange(0) - 1;
    tail_.store(tail + 1);
    if (full_.exchange(false)) wake();
    return position;
  }

 private:
  void wake() {
    if (wakes_.fetch_add(1) != 0) return;
    graph_->reserve_wait();
    arena_.enqueue([this] {
      poller_->try_put(0);
      graph_->release_wait();
    });
  }

  bool has_room() {
    if (head_ - tail_.load() < kSlots) return true;
    full_.store(true);
    return head_ - tail_.load() < kSlots;
  }

  void poll() {
    constexpr int kBlocksPerTurn = 16;
    for (uint64_t seen = wakes_.load();; seen = wakes_.load()) {
      for (int blocks = 0; !stopping_.load() && has_room(); ++blocks) {
        if (blocks == kBlocksPerTurn) {
          poller_->try_put(0);
          return;
        }
        body_->try_put(head_++);
      }
      if (stopping_.load() || wakes_.fetch_sub(seen) == seen) return;
    }
  }

  using Node = tbb::flow::function_node<size_t, tbb::flow::continue_msg>;
  tbb::task_arena arena_;
  std::optional<tbb::flow::graph> graph_;
  std::optional<Node> body_;
  std::optional<Node> poller_;
  Sleeper sleeper_;
  std::array<std::atomic<size_t>, kSlots> ready_{};
  std::atomic<size_t> tail_{0};
  size_t head_ = 0;
  std::atomic<uint64_t> wakes_{0};
  std::atomic<bool> starved_{false};
  std::atomic<bool> full_{false};
  std::atomic<bool> stopping_{false};
};

void hand_off_floor(benchmark::State& state) {
  const auto threads = static_cast<int>(state.range(0));
  const WorkerLimit limit(threads);
  BareRing ring(threads);
  size_t next = 0;
  for (auto _ : state) {
    if (ring.next() != next++) throw std::logic_error("a wrong block");
  }
  state.SetItemsProcessed(state.iterations());
}

BENCHMARK(hand_off)->Arg(1)->MeasureProcessCPUTime();
BENCHMARK(hand_off_floor)->Arg(1)->MeasureProcessCPUTime();

}  // namespace
}  // namespace millrace

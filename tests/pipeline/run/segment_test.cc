#include "millrace/pipeline/run/segment.h"

#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/pipeline.h"
#include "millrace/pipeline/run/executor.h"
#include "millrace/pipeline/worker_limit.h"

namespace millrace::segment_test {
namespace {

constexpr size_t kCredits = 4;

/// Where the reader of a segment sleeps.
class Sleeper final : public Waker {
 public:
  explicit Sleeper(bool wakes_thread) : wakes_thread_(wakes_thread) {}
  void wake() noexcept override {
    wakes_.fetch_add(1);
    wakes_.notify_one();
  }
  bool wakes_thread() const noexcept override { return wakes_thread_; }
  /// Returns when it was woken more than `seen` times.
  void wait(int seen) const { wakes_.wait(seen); }
  int wakes() const { return wakes_.load(); }

 private:
  const bool wakes_thread_;
  std::atomic<int> wakes_{0};
};

SchemaPtr value_schema() {
  return std::make_shared<const Schema>(std::vector<FeatureSpec>{{"value", DType::kInt64, {}}});
}

Block one_value(BufferPool& pool) { return {value_schema(), {Column::fixed(pool, DType::kInt64, {}, 1)}, 1}; }

/// Turns of as many blocks as the segment has credits. The first call of a turn returns when the reader waits for it,
/// the second notes how often that was woken.
struct Turns {
  std::vector<std::unique_ptr<std::latch>> reader_waits;
  std::vector<std::atomic<int>> wakes_at_second;

  explicit Turns(size_t count) : wakes_at_second(count) {
    for (size_t i = 0; i < count; ++i) reader_waits.push_back(std::make_unique<std::latch>(1));
  }
};

class TurnStage final : public Stage {
 public:
  TurnStage(Block block, Turns& turns, const Sleeper& sleeper)
      : block_(std::move(block)), turns_(turns), sleeper_(sleeper) {}
  Poll next(Block& out) override {
    const size_t turn = calls_ / kCredits;
    if (turn == turns_.reader_waits.size()) return Poll::kEnd;
    if (calls_ % kCredits == 0) turns_.reader_waits[turn]->wait();
    if (calls_ % kCredits == 1) turns_.wakes_at_second[turn] = sleeper_.wakes();
    ++calls_;
    out = block_;
    return Poll::kBlock;
  }

 private:
  const Block block_;
  Turns& turns_;
  const Sleeper& sleeper_;
  size_t calls_ = 0;
};

constexpr int64_t kForEver = INT64_MAX / 2;

// How often the reader was woken when the second block of each turn was made.
std::vector<int> wakes_at_second_blocks(bool is_light, bool wakes_thread, int64_t quick_ns = kForEver,
                                        int64_t late_ns = kForEver) {
  constexpr size_t kTurns = 2;
  const WorkerLimit limit(1);
  Executor executor(1, int64_t{1} << 30);
  const Block block = one_value(executor.pool());
  SegmentStatistics statistics;
  InlineLanes lanes;
  Sleeper sleeper(wakes_thread);
  Turns turns(kTurns);
  Segment segment(executor, {.credits = kCredits,
                             .is_light = is_light,
                             .quick_ns = quick_ns,
                             .late_ns = late_ns,
                             .schema = block.schema(),
                             .statistics = &statistics});
  auto reader = segment.open([&](const StageContext&) { return std::make_unique<TurnStage>(block, turns, sleeper); },
                             {executor.pool(), sleeper, {}, lanes});
  Block out;
  for (size_t turn = 0; turn < kTurns; ++turn) {
    const int seen = sleeper.wakes();
    EXPECT_EQ(reader->next(out), Poll::kPending);
    turns.reader_waits[turn]->count_down();
    sleeper.wait(seen);
    for (size_t taken = 0; taken < kCredits; ++taken) {
      for (int woken = sleeper.wakes(); reader->next(out) == Poll::kPending; ++woken) sleeper.wait(woken);
      EXPECT_EQ(out.first_row, static_cast<int64_t>(turn * kCredits + taken));
    }
  }
  while (reader->next(out) == Poll::kPending) std::this_thread::yield();
  reader = nullptr;
  executor.stop();
  segment.drop_chain();
  return {turns.wakes_at_second.begin(), turns.wakes_at_second.end()};
}

TEST(Segment, ASleepingThreadIsWokenWhenAChainThatOnlyMovesRowsHasMadeWhatItCan) {
  EXPECT_EQ(wakes_at_second_blocks(/*is_light=*/true, /*wakes_thread=*/true), (std::vector{0, 1}));
}

// One segment a test: ThreadSanitizer does not see that oneTBB has left a node, whose place on the stack another's
// takes.
TEST(Segment, AThreadIsWokenAtOnceByAChainThatDoesMore) {
  EXPECT_EQ(wakes_at_second_blocks(/*is_light=*/false, /*wakes_thread=*/true).front(), 1);
}

TEST(Segment, AReaderThatIsNoThreadIsWokenAtOnce) {
  EXPECT_EQ(wakes_at_second_blocks(/*is_light=*/true, /*wakes_thread=*/false).front(), 1);
}

TEST(Segment, AThreadIsWokenAtOnceBehindATurnWhoseBlocksTookLong) {
  EXPECT_EQ(wakes_at_second_blocks(true, true, /*quick_ns=*/0), (std::vector{0, 2}));
}

TEST(Segment, NoBlockIsBegunWhenTheThreadWouldBeWokenLate) {
  EXPECT_EQ(wakes_at_second_blocks(true, true, kForEver, /*late_ns=*/0).front(), 1);
}

/// Two elements, the second of which is only made when the first was delivered.
struct Steps {
  std::atomic<bool> asked{false};
  std::latch delivered{1};
  std::atomic<bool> was_delivered{false};
};

class StepStage final : public Stage {
 public:
  StepStage(BufferPool& pool, Steps& steps) : block_(one_value(pool)), steps_(steps) {}
  Poll next(Block& out) override {
    if (calls_ == 2) return Poll::kEnd;
    if (calls_ == 0) {
      while (!steps_.asked.load()) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // by then the caller sleeps, mostly
    } else {
      for (int i = 0; i < 60'000 && !steps_.delivered.try_wait(); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      steps_.was_delivered = steps_.delivered.try_wait();
    }
    ++calls_;
    out = block_;
    return Poll::kBlock;
  }

 private:
  const Block block_;
  Steps& steps_;
  int calls_ = 0;
};

class StepOperator final : public StageOperator {
 public:
  explicit StepOperator(Steps& steps) : StageOperator(value_schema()), steps_(steps) {}
  std::string_view name() const override { return "steps"; }
  Cardinality cardinality(std::span<const Cardinality>) const override { return Cardinality::known(2); }
  std::unique_ptr<Stage> open(std::vector<OpenStage>, const StageContext& context) const override {
    return std::make_unique<StepStage>(context.pool, steps_);
  }

 private:
  Steps& steps_;
};

// Such as one whose function waits for the world outside.
TEST(Segment, AnElementOfAnOperatorThatMayTakeLongIsDeliveredWhileItMakesTheNext) {
  Steps steps;
  const Dataset dataset =
      Dataset::from_operator({}, [&](auto) { return std::make_shared<StepOperator>(steps); }).repeat(1);
  Pipeline pipeline = dataset.start({.threads = 1});
  steps.asked = true;
  EXPECT_TRUE(pipeline.next());
  steps.delivered.count_down();
  EXPECT_TRUE(pipeline.next());
  EXPECT_FALSE(pipeline.next());
  EXPECT_TRUE(steps.was_delivered);
}

}  // namespace
}  // namespace millrace::segment_test

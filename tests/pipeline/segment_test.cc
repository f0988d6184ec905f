#include "pipeline/segment.h"

#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "pipeline/executor.h"
#include "pipeline/worker_limit.h"

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

// How often the reader was woken when the second block of each turn was made. `slow`: the first call of each takes
// long.
std::vector<int> wakes_at_second_blocks(bool only_moves_rows, bool wakes_thread, bool slow) {
  constexpr size_t kTurns = 2;
  const WorkerLimit limit(1);
  Executor executor(1, int64_t{1} << 30);
  const auto schema = std::make_shared<const Schema>(std::vector<FeatureSpec>{{"value", DType::kInt64, {}}});
  const Block block(schema, {Column::fixed(executor.pool(), DType::kInt64, {}, 1)}, 1);
  SegmentStatistics statistics;
  InlineLanes lanes;
  Sleeper sleeper(wakes_thread);
  Turns turns(kTurns);
  Segment segment(
      executor, {.credits = kCredits, .only_moves_rows = only_moves_rows, .schema = schema, .statistics = &statistics});
  auto reader = segment.open([&](const StageContext&) { return std::make_unique<TurnStage>(block, turns, sleeper); },
                             {executor.pool(), sleeper, {}, lanes});
  Block out;
  for (size_t turn = 0; turn < kTurns; ++turn) {
    const int seen = sleeper.wakes();
    EXPECT_EQ(reader->next(out), Poll::kPending);
    if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    turns.reader_waits[turn]->count_down();
    for (size_t taken = 0; taken < kCredits; ++taken) {
      for (int woken = seen; reader->next(out) == Poll::kPending; ++woken) sleeper.wait(woken);
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
  EXPECT_EQ(wakes_at_second_blocks(/*only_moves_rows=*/true, /*wakes_thread=*/true, /*slow=*/false).front(), 0);
}

TEST(Segment, OthersAreWokenAtOnce) {
  EXPECT_EQ(wakes_at_second_blocks(/*only_moves_rows=*/false, /*wakes_thread=*/true, /*slow=*/false).front(), 1);
  EXPECT_EQ(wakes_at_second_blocks(/*only_moves_rows=*/true, /*wakes_thread=*/false, /*slow=*/false).front(), 1);
}

// 2 ms for the 4 blocks of the turn before.
TEST(Segment, SoIsASleepingThreadWhenBlocksTookLong) {
  const std::vector<int> wakes = wakes_at_second_blocks(/*only_moves_rows=*/true, /*wakes_thread=*/true, /*slow=*/true);
  EXPECT_EQ(wakes[0], 0);
  EXPECT_GT(wakes[1], 1);
}

}  // namespace
}  // namespace millrace::segment_test

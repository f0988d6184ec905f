#include "millrace/ops/sources/shard_order.h"

#include <gtest/gtest.h>

#include "tests/support/small_memory_gate.h"

namespace millrace::shard_order_test {
namespace {

using test::SmallMemoryGate;

TEST(LaneReads, AreWhatIsWantedWhereAnEighthOfTheBudgetHoldsThem) {
  const LaneReads reads = lane_reads(SmallMemoryGate(int64_t{8} * 10 * 4 * (256 << 10)), 10, {256 << 10, 3});
  EXPECT_EQ(reads.chunk_bytes, size_t{256 << 10});
  EXPECT_EQ(reads.read_ahead, 3U);
}

TEST(LaneReads, HaveSmallerChunksWithASmallerBudget) {
  const LaneReads reads = lane_reads(SmallMemoryGate(int64_t{8} * 10 * 4 * (100 << 10)), 10, {256 << 10, 3});
  EXPECT_EQ(reads.chunk_bytes, size_t{100 << 10});
  EXPECT_EQ(reads.read_ahead, 3U);
}

TEST(LaneReads, HaveFewerChunksWhereTheyCannotBeSmaller) {
  const LaneReads reads = lane_reads(SmallMemoryGate(int64_t{8} * 10 * 6 * kLeastChunk), 10, {256 << 10, 100});
  EXPECT_EQ(reads.chunk_bytes, kLeastChunk);
  EXPECT_EQ(reads.read_ahead, 5U);
  EXPECT_EQ(lane_reads(SmallMemoryGate(1), 10, {256 << 10, 100}).read_ahead, 2U);
  EXPECT_EQ(lane_reads(SmallMemoryGate(1), 10, {256 << 10, 0}).read_ahead, 0U);
}

}  // namespace
}  // namespace millrace::shard_order_test

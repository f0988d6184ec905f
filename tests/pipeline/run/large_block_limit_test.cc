#include "millrace/pipeline/run/large_block_limit.h"

#include <utility>

#include <gtest/gtest.h>

namespace millrace::large_block_limit_test {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr size_t kSlots = 12;

LargeBlockLimit limit() { return LargeBlockLimit({.bytes = 8 * kMiB, .slots = 2, .slots_of_slow = 4}); }

TEST(LargeBlockLimit, SmallAndUnknownBlocksMayUseAllSlots) {
  LargeBlockLimit small = limit();
  EXPECT_EQ(small.usable(kSlots), kSlots);
  small.made(kMiB - 1, 0);
  EXPECT_EQ(small.usable(kSlots), kSlots);
  EXPECT_EQ(small.bytes_of_last(), kMiB - 1);
}

TEST(LargeBlockLimit, LargeOnesMayUseWhatFitsAndAtLeastAsManyAsAskedFor) {
  LargeBlockLimit large = limit();
  for (const auto& [mebibytes, slots] : {std::pair(1, 8), std::pair(2, 4), std::pair(3, 2), std::pair(100, 2)}) {
    large.made(mebibytes * kMiB, 0);
    EXPECT_EQ(large.usable(kSlots), static_cast<size_t>(slots)) << mebibytes;
  }
  large.made(kMiB, 0);
  EXPECT_EQ(large.usable(3), 3U) << "never more than there are";
  large.made(1, 0);
  EXPECT_EQ(large.usable(kSlots), kSlots) << "blocks have become small again";
}

TEST(LargeBlockLimit, SlowBodiesMayUseMore) {
  LargeBlockLimit large = limit();
  large.made(100 * kMiB, 100 * kMiB);
  EXPECT_EQ(large.usable(kSlots), 2U);
  large.made(100 * kMiB, 100 * kMiB + 1);
  EXPECT_EQ(large.usable(kSlots), 4U);
}

TEST(LargeBlockLimit, WhatABlockBeginsWithCountsUntilOneIsMade) {
  LargeBlockLimit large = limit();
  large.expect(4 * kMiB);
  EXPECT_EQ(large.usable(kSlots), 2U);
  EXPECT_EQ(large.bytes_of_last(), -1) << "what it will have after the maps is not known";
  large.made(kMiB, 0);
  large.expect(4 * kMiB);
  EXPECT_EQ(large.usable(kSlots), 8U);
}

TEST(LargeBlockLimit, ByDefaultThereIsNone) {
  LargeBlockLimit none({});
  none.made(int64_t{1} << 40, 0);
  EXPECT_EQ(none.usable(kSlots), kSlots);
}

}  // namespace
}  // namespace millrace::large_block_limit_test

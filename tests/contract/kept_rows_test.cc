// Operators that hold rows between notes of what was left out of damaged shards, saved at every place.

#include <gtest/gtest.h>

#include "tests/contract/checks.h"

namespace millrace::test::kept_rows_test {
namespace {

TwinDataset damaged(const Weave& weave) {
  return TwinDataset::tfrecord({"damaged-0", "plain-4", "damaged-1", "gzip-2"},
                               {.cycle_length = 3, .block_length = 1, .damage = {.action = DamagePolicy::kSkip}},
                               weave);
}

void expect_kept(TwinDataset (*make)(const Weave&)) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    EXPECT_EQ(broken_promise(make, {.seed = seed, .most_places = 12, .limit = 60}), "") << make({}).code();
  }
}

TEST(KeptRows, WindowsThatOverlapAreResumedBetweenNotes) {
  expect_kept([](const Weave& weave) { return damaged(weave).window(6, 1, 1, BatchOptions{}); });
  expect_kept([](const Weave& weave) { return damaged(weave).window(3, 2, 3, BatchOptions{.drop_remainder = true}); });
  expect_kept([](const Weave& weave) { return damaged(weave).window(2, 5, 1, RaggedBatchOptions{}).repeat(2); });
}

TEST(KeptRows, GroupsAreResumedBetweenNotes) {
  expect_kept([](const Weave& weave) { return damaged(weave).group_by_window(3, 4, BatchOptions{}); });
  expect_kept([](const Weave& weave) {
    return damaged(weave).map_span_rows().bucket_by_sequence_length({"span"}, {1, 2, 3}, {2, 5, 4, 3}, false, true,
                                                                    PadLength::longest(), -1);
  });
  expect_kept([](const Weave& weave) {
    return TwinDataset::range(0, 1500, 1, weave).group_by_window(4, std::nullopt, BatchOptions{});
  });
}

TEST(KeptRows, PacksAreResumedBetweenNotes) {
  expect_kept(
      [](const Weave& weave) { return damaged(weave).map_span_rows().pack(7, 4, LongSequences::kError, {"span"}); });
  expect_kept([](const Weave& weave) {
    return TwinDataset::rows(40, weave).repeat(20).pack(3, 20, LongSequences::kSplit, {"tokens"});
  });
}

}  // namespace
}  // namespace millrace::test::kept_rows_test

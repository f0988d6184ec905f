// Graphs that broke the contract once.

#include <gtest/gtest.h>

#include "tests/contract/checks.h"

namespace millrace::test::found_graphs_test {
namespace {

void expect_kept(TwinDataset (*make)(const Weave&)) {
  EXPECT_EQ(broken_promise(make, {.most_places = 8}), "") << make({}).code();
}

// Longer than a block: what goes on in the second one must not number rows from 0.
TEST(FoundGraphs, WhatPassesEverythingOnBehindAMapIsResumedWithTheNumbersOfRows) {
  expect_kept([](const Weave& weave) { return TwinDataset::range(0, 1200, 1, weave).map_number_rows().take(-1); });
  expect_kept([](const Weave& weave) { return TwinDataset::range(0, 1200, 1, weave).map_number_rows().skip(0); });
}

// Saved with the parser before the shuffle and resumed with it after, or the other way round: what was after the
// filter was counted as if it stood before.
TEST(FoundGraphs, AParserThatARewriteMovesFromAFilterToAShuffleLeavesNoTraceInStates) {
  expect_kept([](const Weave& weave) {
    return TwinDataset::tfrecord({"plain-0", "plain-1", "plain-3"}, {.cycle_length = 2}, weave)
        .filter_rows(2, 1)
        .parse_example({"id", "tokens"})
        .shuffle(1, {.seed = 0});
  });
}

// Resumed after an error of its own, it forgot how many rows an element has.
TEST(FoundGraphs, AnAssertedCardinalityBehindAnotherFailsTheSameAfterResuming) {
  expect_kept([](const Weave& weave) {
    return TwinDataset::range(0, 9, 1, weave).batch(2, true).assert_cardinality(5).assert_cardinality(5);
  });
}

// Saved without the prefetch between them and resumed with it, the first map numbered its rows from 0.
TEST(FoundGraphs, MapsOfOneSegmentAndOfTwoHaveTheSameStates) {
  expect_kept(
      [](const Weave& weave) { return TwinDataset::range(0, 1200, 1, weave).map_number_rows().map_span_rows(); });
}

// Resumed in front of the note with which an epoch ends, a repeat forever took the data for empty and ended.
TEST(FoundGraphs, ARepeatGoesOnBehindAnEpochThatEndsWithANote) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const auto make = [](const Weave& weave) {
      return TwinDataset::tfrecord({"damaged-1", "gzip-2", "plain-4"},
                                   {.cycle_length = 2,
                                    .block_length = 4,
                                    .shuffle_shards = true,
                                    .seed = 7,
                                    .damage = {.action = DamagePolicy::kSkip}},
                                   weave)
          .shuffle(20, {.seed = 1})
          .padded_batch(8, true, PadLength::longest(), std::nullopt)
          .repeat(-1)
          .shuffle(20, {.seed = 2});
    };
    EXPECT_EQ(broken_promise(make, {.seed = seed, .most_places = 6, .limit = 60}), "") << seed;
  }
}

// Whole blocks that pass a choice know that their batches have one shape, and blocks put together do not; unique took
// equal batches of the two for different.
TEST(FoundGraphs, UniqueBehindAChoiceTakesEqualBatchesForEqual) {
  expect_kept([](const Weave& weave) {
    const TwinDataset batches = TwinDataset::range(-5, 45, 1, weave).batch(2, false);
    return TwinDataset::choose_from_datasets({batches, batches, batches, batches}, TwinDataset::range(0, 4, 1, weave),
                                             false, weave)
        .unique("value");
  });
}

// Of records with two, no and one step a block has as many steps as records, and each step was taken for one of the
// records in turn: errors named wrong places, others than in blocks that were cut elsewhere.
TEST(FoundGraphs, UnbatchedStepsComeFromTheRecordsThatTheyAreOf) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const auto make = [](const Weave& weave) {
      const TwinDataset steps =
          TwinDataset::tfrecord({"plain-0", "plain-1"}, {.cycle_length = 1}, weave).parse_sequence_example({});
      return TwinDataset::interleave({steps, steps}, {.cycle_length = 2}, weave).unbatch().map_fail_rows(2, 0);
    };
    EXPECT_EQ(broken_promise(make, {.seed = seed, .most_places = 8}), "") << seed;
  }
}

// The model had another code for numbers that do not fit, and graphs seldom draw such.
TEST(FoundGraphs, ANumberThatDoesNotFitACastGoesWithTheElementThatAWindowLeavesOut) {
  expect_kept([](const Weave& weave) {
    return TwinDataset::range(0, 9, 1, weave).add("value", (int64_t{1} << 31) - 7).cast("value", DType::kInt32);
  });
  expect_kept([](const Weave& weave) {
    return TwinDataset::range(0, 9, 1, weave)
        .add("value", (int64_t{1} << 31) - 7)
        .cast("value", DType::kInt32)
        .window(1, 8, 1, {});
  });
}

}  // namespace
}  // namespace millrace::test::found_graphs_test

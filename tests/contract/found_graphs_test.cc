// Graphs that broke the contract once.

#include <gtest/gtest.h>

#include "tests/contract/checks.h"

namespace millrace::test {
namespace {

void expect_kept(TwinDataset (*make)(const Weave&)) {
  EXPECT_EQ(broken_promise(make, {.most_places = 8}), "") << make({}).code();
}

// Longer than a block: what goes on in the second one must not number rows from 0.
TEST(FoundGraphs, WhatPassesEverythingOnBehindAMapIsResumedWithTheNumbersOfRows) {
  expect_kept([](const Weave& weave) { return TwinDataset::range(0, 1200, 1, weave).map_number_rows().take(-1); });
  expect_kept([](const Weave& weave) { return TwinDataset::range(0, 1200, 1, weave).map_number_rows().skip(0); });
}

}  // namespace
}  // namespace millrace::test

// States with numbers that no run counts to: a digest does not keep somebody from writing them.
#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/ops/batch/group_by_window.h"
#include "millrace/ops/batch/unbatch.h"
#include "millrace/ops/flow/assert_cardinality.h"
#include "millrace/ops/flow/enumerate.h"
#include "millrace/ops/flow/repeat.h"
#include "millrace/ops/flow/shard.h"
#include "millrace/ops/flow/shuffle.h"
#include "millrace/ops/flow/take.h"
#include "millrace/ops/flow/unique.h"
#include "millrace/ops/sources/range.h"
#include "millrace/ops/sources/rows.h"
#include "millrace/ops/tokens/pack.h"
#include "tests/support/operator_chain.h"

namespace millrace::forged_state_test {
namespace {

using test::Chain;
using ::testing::HasSubstr;

Chain numbers() { return Chain::source<RangeOperator>(0, 10, 1, "x"); }

// What comes of going on from a state with these numbers, with a place in the input that can be.
std::string outcome(const Chain& chain, std::string_view kind, std::vector<int64_t> state, int64_t skip = 0,
                    std::string_view input_kind = "range") {
  BufferPool pool;
  test::CountingWaker waker;
  InlineLanes lanes;
  const Cursor input = make_cursor(input_kind, {0}).advanced_by(skip);
  try {
    const auto stage = open_at(chain.opener(0), {pool, waker, {}, lanes}, make_cursor(kind, std::move(state), {input}));
    Block block;
    while (stage->next(block) != Poll::kEnd) {  // unique lets others go first
    }
    return "accepted";
  } catch (const ErrorException& failed) {
    return failed.what();
  }
}

TEST(ForgedStates, NumbersThatNoRunCountsToAreRefused) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  constexpr const char* kRefusal = "has numbers that cannot be";
  const std::vector<Chain> chains{numbers().then<EnumerateOperator>(0), numbers().then<ShardOperator>(3, 1),
                                  numbers().then<AssertCardinalityOperator>(10)};
  const std::vector<std::string> kinds{"enumerate", "shard", "assert_cardinality"};
  for (size_t i = 0; i < chains.size(); ++i) {
    EXPECT_THAT(outcome(chains[i], kinds[i], {kHuge, 0, 0}), HasSubstr(kRefusal)) << kinds[i];
    EXPECT_THAT(outcome(chains[i], kinds[i], {-1, 0, 0}), HasSubstr(kRefusal)) << kinds[i];
    EXPECT_THAT(outcome(chains[i], kinds[i], {0, kHuge / 2, kHuge / 2}), HasSubstr(kRefusal)) << kinds[i];
    EXPECT_THAT(outcome(chains[i], kinds[i], {0, 0, 0}, kHuge), HasSubstr("a state has a place that cannot be"));
  }
  EXPECT_THAT(outcome(numbers().then<ShuffleOperator>(4, ShuffleOptions{}), "shuffle", {kHuge, 0, 0}),
              HasSubstr(kRefusal));
  EXPECT_THAT(outcome(numbers().then<ShuffleOperator>(4, ShuffleOptions{}), "shuffle", {0, -1, 0}),
              HasSubstr(kRefusal));
  // Places of rows that wait: each after the other.
  const Chain rows =
      Chain::source<RowsOperator>(std::vector<MemoryFeature>{{"t", std::vector<std::vector<int64_t>>{{1}, {2, 3}}}});
  EXPECT_THAT(
      outcome(rows.then<PackOperator>(4, PackOptions{}), "pack", {0, kHuge / 3, kHuge / 3, kHuge / 3}, 0, "rows"),
      HasSubstr(kRefusal));
}

TEST(ForgedStates, PlacesBeyondWhatThereIsAreRefused) {
  constexpr const char* kRefusal = "has numbers that cannot be";
  const auto of_source = [](const Chain& chain, std::string_view kind, int64_t place) {
    BufferPool pool;
    test::CountingWaker waker;
    InlineLanes lanes;
    try {
      (void)open_at(chain.opener(0), {pool, waker, {}, lanes}, make_cursor(kind, {place}));
    } catch (const ErrorException& failed) {
      EXPECT_EQ(failed.error().code, ErrorCode::kState);
      return std::string(failed.what());
    }
    return std::string("accepted");
  };
  const Chain rows = Chain::source<RowsOperator>(std::vector<MemoryFeature>{{"x", std::vector<int64_t>{1, 2, 3}}});
  EXPECT_EQ(of_source(numbers(), "range", 10), "accepted");
  EXPECT_THAT(of_source(numbers(), "range", 11), HasSubstr(kRefusal));
  EXPECT_EQ(of_source(rows, "rows", 3), "accepted");
  EXPECT_THAT(of_source(rows, "rows", 4), HasSubstr(kRefusal));
  EXPECT_EQ(outcome(numbers().then<RepeatOperator>(2), "repeat", {2, 0}), "accepted");
  EXPECT_THAT(outcome(numbers().then<RepeatOperator>(2), "repeat", {3, 0}), HasSubstr(kRefusal));
  EXPECT_THAT(outcome(numbers().then<AssertCardinalityOperator>(10), "assert_cardinality", {11, 0, 1}),
              HasSubstr(kRefusal));
  // More elements than come before the end of the input.
  EXPECT_EQ(outcome(numbers(), "range", {0}, 0), "accepted");
  EXPECT_THAT(outcome(numbers().then<EnumerateOperator>(0), "enumerate", {0}, 11),
              HasSubstr("a state has a place 1 elements after the end"));
  EXPECT_THAT(outcome(numbers().then<UniqueOperator>("x"), "unique", {11}), HasSubstr("ended before the place"));
  const Chain tokens =
      Chain::source<RowsOperator>(std::vector<MemoryFeature>{{"t", std::vector<std::vector<int64_t>>{{1}, {2, 3}}}})
          .then<PackOperator>(4, PackOptions{});
  EXPECT_THAT(outcome(tokens, "pack", {3}, 0, "rows"), HasSubstr("ended before the place"));
  EXPECT_THAT(outcome(tokens, "pack", {int64_t{1} << 40}, 0, "rows"), HasSubstr(kRefusal));
}

TEST(ForgedStates, WhatIsLeftToTakeIsNoMoreThanWasAskedFor) {
  // All of an endless input may be left.
  const Chain all = numbers().then<TakeOperator>(-1);
  EXPECT_EQ(outcome(all, "take", {std::numeric_limits<int64_t>::max()}), "accepted");
  const Chain five = numbers().then<TakeOperator>(5);
  BufferPool pool;
  test::CountingWaker waker;
  InlineLanes lanes;
  const auto stage =
      open_at(five.opener(0), {pool, waker, {}, lanes}, make_cursor("take", {1000}, {make_cursor("range", {0})}));
  Block block;
  ASSERT_EQ(stage->next(block), Poll::kBlock);
  EXPECT_EQ(block.num_elements(), 5U);
}

TEST(ForgedStates, ShardsAreSkippedNoFurtherThanToTheirTurn) {
  const Chain chain = numbers().then<ShardOperator>(3, 1);
  BufferPool pool;
  test::CountingWaker waker;
  InlineLanes lanes;
  const auto stage = open_at(chain.opener(0), {pool, waker, {}, lanes},
                             make_cursor("shard", {1000, 1000}, {make_cursor("range", {0})}));
  Block block;
  ASSERT_EQ(stage->next(block), Poll::kBlock);
  EXPECT_EQ(block.column(0).values<int64_t>(0)[0], 2);
}

}  // namespace
}  // namespace millrace::forged_state_test

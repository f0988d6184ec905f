#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/ops/batch/batch.h"
#include "millrace/ops/flow/ignore_errors.h"
#include "millrace/ops/flow/repeat.h"
#include "millrace/ops/flow/shard.h"
#include "millrace/ops/flow/shuffle.h"
#include "millrace/ops/flow/skip.h"
#include "millrace/ops/flow/take.h"
#include "millrace/ops/sources/range.h"
#include "tests/support/operator_chain.h"

namespace millrace::take_skip_shard_repeat_test {
namespace {

using test::Chain;
using test::FaultyRange;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

Chain range(int64_t count) { return Chain::source<RangeOperator>(0, count, 1, "x"); }
Chain faulty(int64_t count, std::vector<int64_t> faults) {
  return Chain::source<FaultyRange>(count, std::move(faults));
}
const char* const kAt1 = "error: parse: at 1";

TEST(RangeTest, GoesUpAndDownAndStopsBeforeTheEnd) {
  EXPECT_THAT(Chain::source<RangeOperator>(0, 10, 4, "x").elements(), ElementsAre("x=0", "x=4", "x=8"));
  EXPECT_THAT(Chain::source<RangeOperator>(5, -4, -3, "x").elements(), ElementsAre("x=5", "x=2", "x=-1"));
  EXPECT_THAT(Chain::source<RangeOperator>(5, 0, 1, "x").elements(), IsEmpty());
  EXPECT_THAT(Chain::source<RangeOperator>(INT64_MAX - 1, INT64_MAX, 5, "x").elements(),
              ElementsAre("x=9223372036854775806"));
  EXPECT_EQ(Chain::source<RangeOperator>(0, 10, 4, "x").cardinality(), Cardinality::known(3));
  EXPECT_THROW(RangeOperator(0, 5, 0), ErrorException);
  EXPECT_THROW(RangeOperator(INT64_MIN, INT64_MAX, 1), ErrorException);
}

TEST(TakeTest, StopsAfterTheCountAndDoesNotReadOn) {
  EXPECT_THAT(range(5).then<TakeOperator>(2).elements(), ElementsAre("x=0", "x=1"));
  EXPECT_THAT(range(5).then<TakeOperator>(0).elements(), IsEmpty());
  EXPECT_EQ(range(5000).then<TakeOperator>(3000).elements().size(), 3000u);
  EXPECT_EQ(range(5).then<TakeOperator>(9).elements().size(), 5u);
  EXPECT_EQ(range(5).then<TakeOperator>(-1).elements().size(), 5u);
  EXPECT_THAT(range(3).then<RepeatOperator>(-1).then<TakeOperator>(4).elements(),
              ElementsAre("x=0", "x=1", "x=2", "x=0"));
}

TEST(TakeTest, ErrorsDoNotCountAndThoseBehindTheLastElementAreNotReached) {
  EXPECT_THAT(faulty(6, {1}).then<TakeOperator>(3).elements(), ElementsAre("x=0", kAt1, "x=2", "x=3"));
  EXPECT_THAT(faulty(6, {1}).then<TakeOperator>(1).elements(), ElementsAre("x=0"));
}

TEST(SkipTest, StartsCountingAgainBehindAnError) {
  EXPECT_THAT(range(5).then<SkipOperator>(3).elements(), ElementsAre("x=3", "x=4"));
  EXPECT_EQ(range(5).then<SkipOperator>(0).elements().size(), 5u);
  EXPECT_THAT(range(5).then<SkipOperator>(-1).elements(), IsEmpty());
  EXPECT_THAT(range(5).then<SkipOperator>(9).elements(), IsEmpty());
  EXPECT_THAT(faulty(7, {1}).then<SkipOperator>(3).elements(), ElementsAre(kAt1, "x=5", "x=6"));
  EXPECT_THAT(faulty(5, {1}).then<SkipOperator>(1).elements(), ElementsAre(kAt1, "x=2", "x=3", "x=4"));
}

TEST(ShardTest, KeepsItsElementsAndPassesAllErrorsOn) {
  EXPECT_THAT(range(8).then<ShardOperator>(3, 1).elements(), ElementsAre("x=1", "x=4", "x=7"));
  EXPECT_THAT(range(20).then<ShardOperator>(2, 1).then<ShardOperator>(3, 2).elements(),
              ElementsAre("x=5", "x=11", "x=17"));
  // After 1 is out, 2 is passed over; after the error at 3 two more are (4, 5), then 6 goes out.
  EXPECT_THAT(faulty(8, {3}).then<ShardOperator>(3, 1).elements(), ElementsAre("x=1", "error: parse: at 3", "x=6"));
  // An error in the wanted place: the next element goes out.
  EXPECT_THAT(faulty(8, {1}).then<ShardOperator>(3, 1).elements(), ElementsAre(kAt1, "x=2", "x=5"));
}

TEST(ShardTest, RefusesAnIndexOutsideOfTheShards) {
  EXPECT_THROW(range(3).then<ShardOperator>(0, 0), ErrorException);
  EXPECT_THROW(range(3).then<ShardOperator>(3, 3), ErrorException);
  EXPECT_THROW(range(3).then<ShardOperator>(3, -1), ErrorException);
}

TEST(RepeatTest, RowsCarryTheEpochCountedOverNestedRepeats) {
  const auto stream = range(2).then<RepeatOperator>(2).then<RepeatOperator>(3).run();
  EXPECT_EQ(stream.elements.size(), 12u);
  EXPECT_THAT(stream.epochs, ElementsAre(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5));
  EXPECT_THAT(range(2).then<RepeatOperator>(0).elements(), IsEmpty());
}

TEST(RepeatTest, AnEmptyInputRepeatedForEverEndsAtOnce) {
  EXPECT_THAT(range(0).then<RepeatOperator>(-1).elements(), IsEmpty());
  EXPECT_THAT(range(3).then<SkipOperator>(3).then<RepeatOperator>(-1).then<TakeOperator>(3).elements(), IsEmpty());
}

TEST(RepeatTest, AnErrorDoesNotEndTheEpoch) {
  EXPECT_THAT(faulty(3, {1}).then<RepeatOperator>(2).elements(), ElementsAre("x=0", kAt1, "x=2", "x=0", kAt1, "x=2"));
}

TEST(RepeatTest, EachEpochShufflesAnewAndForEverCutShortIsNotTheSameAgain) {
  const auto twice = range(30).then<ShuffleOperator>(30).then<RepeatOperator>(2).elements();
  const std::vector<std::string> first(twice.begin(), twice.begin() + 30);
  const std::vector<std::string> second(twice.begin() + 30, twice.end());
  EXPECT_NE(first, second);
  EXPECT_TRUE(std::is_permutation(first.begin(), first.end(), second.begin()));
  const auto cut = range(30).then<ShuffleOperator>(30).then<RepeatOperator>(-1).then<TakeOperator>(30);
  const auto cut_twice = cut.then<RepeatOperator>(2).elements();
  EXPECT_EQ(std::vector(cut_twice.begin(), cut_twice.begin() + 30), first);
  EXPECT_NE(std::vector(cut_twice.begin() + 30, cut_twice.end()), first);
}

TEST(RepeatTest, BatchesBehindItSpanEpochsAndCarryTheirFirstRowsEpoch) {
  const Chain chain = range(5).then<RepeatOperator>(3).then<BatchOperator>(3);
  EXPECT_THAT(chain.elements(), ElementsAre("x=[0,1,2]", "x=[3,4,0]", "x=[1,2,3]", "x=[4,0,1]", "x=[2,3,4]"));
  EXPECT_THAT(chain.run().epochs, ElementsAre(0, 0, 1, 1, 2));
  const Chain shuffled = range(5).then<RepeatOperator>(3).then<ShuffleOperator>(7);
  EXPECT_EQ(shuffled.elements().size(), 15u);
  const auto stream = shuffled.run();
  EXPECT_EQ(std::count(stream.epochs.begin(), stream.epochs.end(), 2), 5);
}

TEST(IgnoreErrorsTest, DropsErrorsAndGoesOn) {
  EXPECT_THAT(faulty(4, {0, 1, 3}).then<IgnoreErrorsOperator>().elements(), ElementsAre("x=2"));
  EXPECT_THAT(faulty(12, {1, 5, 9}).then<BatchOperator>(3).then<IgnoreErrorsOperator>().elements(),
              ElementsAre("x=[2,3,4]", "x=[6,7,8]", "x=[10,11]"));
}

TEST(CardinalityTest, IsThatOfTfData) {
  const Chain unknown = range(5).then<IgnoreErrorsOperator>();
  const Chain infinite = range(5).then<RepeatOperator>(-1);
  EXPECT_EQ(infinite.cardinality(), Cardinality::infinite());
  EXPECT_EQ(range(0).then<RepeatOperator>(-1).cardinality(), Cardinality::known(0));
  EXPECT_EQ(unknown.then<RepeatOperator>(-1).cardinality(), Cardinality::infinite());
  EXPECT_EQ(unknown.then<RepeatOperator>(0).cardinality(), Cardinality::known(0));
  EXPECT_EQ(range(8).then<RepeatOperator>(2).cardinality(), Cardinality::known(16));
  EXPECT_EQ(infinite.then<RepeatOperator>(2).cardinality(), Cardinality::infinite());
  EXPECT_EQ(infinite.then<TakeOperator>(3).cardinality(), Cardinality::known(3));
  EXPECT_EQ(unknown.then<TakeOperator>(0).cardinality(), Cardinality::unknown());
  EXPECT_EQ(range(5).then<TakeOperator>(-1).cardinality(), Cardinality::known(5));
  EXPECT_EQ(range(5).then<TakeOperator>(-2).cardinality(), Cardinality::unknown());
  EXPECT_EQ(range(5).then<SkipOperator>(2).cardinality(), Cardinality::known(3));
  EXPECT_EQ(range(5).then<SkipOperator>(-1).cardinality(), Cardinality::known(0));
  EXPECT_EQ(unknown.then<SkipOperator>(-1).cardinality(), Cardinality::unknown());
  EXPECT_EQ(range(8).then<ShardOperator>(3, 1).cardinality(), Cardinality::known(3));
  EXPECT_EQ(infinite.then<ShardOperator>(3, 1).cardinality(), Cardinality::infinite());
  EXPECT_EQ(infinite.then<BatchOperator>(3).cardinality(), Cardinality::infinite());
}

}  // namespace
}  // namespace millrace::take_skip_shard_repeat_test

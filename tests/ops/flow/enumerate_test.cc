#include "millrace/ops/flow/enumerate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/ops/batch/batch.h"
#include "millrace/ops/flow/repeat.h"
#include "millrace/ops/sources/range.h"
#include "tests/support/operator_chain.h"

namespace millrace::enumerate_test {
namespace {

using test::Chain;
using test::FaultyRange;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Chain range(int64_t start, int64_t stop) { return Chain::source<RangeOperator>(start, stop, 1, "x"); }

TEST(EnumerateTest, NumbersElementsFromAnyStartAndAnewInEachEpoch) {
  EXPECT_THAT(range(5, 8).then<EnumerateOperator>(-1).elements(),
              ElementsAre("x=5 index=-1", "x=6 index=0", "x=7 index=1"));
  EXPECT_THAT(range(5, 7).then<EnumerateOperator>().then<RepeatOperator>(2).elements(),
              ElementsAre("x=5 index=0", "x=6 index=1", "x=5 index=0", "x=6 index=1"));
  EXPECT_THAT(range(5, 7).then<RepeatOperator>(2).then<EnumerateOperator>().elements(),
              ElementsAre("x=5 index=0", "x=6 index=1", "x=5 index=2", "x=6 index=3"));
  EXPECT_THAT(range(5, 5).then<EnumerateOperator>().elements(), ElementsAre());
}

TEST(EnumerateTest, CountsElementsAcrossBlocksAndBatchesAsOne) {
  const std::vector<std::string> elements = range(0, 3000).then<EnumerateOperator>(10).elements();
  EXPECT_EQ(elements[2999], "x=2999 index=3009");
  EXPECT_THAT(range(0, 5).then<BatchOperator>(2).then<EnumerateOperator>().elements(),
              ElementsAre("x=[0,1] index=0", "x=[2,3] index=1", "x=[4] index=2"));
}

TEST(EnumerateTest, AnErrorHasANumberAndANoteHasNone) {
  const Chain input = Chain::source<FaultyRange>(5, std::vector<int64_t>{1}, std::vector<int64_t>{2});
  EXPECT_THAT(input.then<EnumerateOperator>().elements(),
              ElementsAre("x=0 index=0", HasSubstr("at 1"), HasSubstr("note at 2"), "x=3 index=2", "x=4 index=3"));
}

TEST(EnumerateTest, AFeatureOfTheNameIsReplacedInItsPlace) {
  const Chain twice = range(5, 7).then<EnumerateOperator>().then<EnumerateOperator>(20, "x");
  EXPECT_THAT(twice.elements(), ElementsAre("x=20 index=0", "x=21 index=1"));
}

TEST(EnumerateTest, NumbersGoOnAtTheOtherEndOfTheType) {
  EXPECT_THAT(range(0, 2).then<EnumerateOperator>(INT64_MAX).elements(),
              ElementsAre("x=0 index=9223372036854775807", "x=1 index=-9223372036854775808"));
}

}  // namespace
}  // namespace millrace::enumerate_test

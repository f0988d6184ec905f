#include "millrace/ops/flow/assert_cardinality.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/ops/batch/batch.h"
#include "millrace/ops/flow/repeat.h"
#include "millrace/ops/sources/range.h"
#include "tests/support/operator_chain.h"

namespace millrace::assert_cardinality_test {
namespace {

using test::Chain;

using test::FaultyRange;
using testing::ElementsAre;

Chain range(int64_t count) { return Chain::source<RangeOperator>(0, count, 1, "x"); }
Chain faulty(int64_t count, std::vector<int64_t> faults) {
  return Chain::source<FaultyRange>(count, std::move(faults));
}

TEST(AssertCardinality, PassesWhatIsAsMuchAsAsserted) {
  EXPECT_THAT(range(3).then<AssertCardinalityOperator>(3).elements(), ElementsAre("x=0", "x=1", "x=2"));
  EXPECT_THAT(range(0).then<AssertCardinalityOperator>(0).elements(), ElementsAre());
  EXPECT_EQ(range(5000).then<AssertCardinalityOperator>(5000).elements().size(), 5000U);
  EXPECT_THAT(faulty(3, {1}).then<AssertCardinalityOperator>(2).elements(),
              ElementsAre("x=0", "error: parse: at 1", "x=2"))
      << "errors do not count";
  EXPECT_EQ(range(3).then<RepeatOperator>(-1).then<AssertCardinalityOperator>(9).cardinality(), Cardinality::known(9));
}

TEST(AssertCardinality, IsAnErrorWithBothNumbersAtAnEndThatComesEarlyAndAtAnElementTooMany) {
  const std::string begins = "error: cardinality: ";
  const std::string stage = " (stage assert_cardinality)";
  EXPECT_THAT(range(2).then<AssertCardinalityOperator>(3).elements(),
              ElementsAre("x=0", "x=1", begins + "3 elements were asserted, there are 2" + stage));
  EXPECT_THAT(range(0).then<AssertCardinalityOperator>(1).elements(),
              ElementsAre(begins + "1 elements were asserted, there are 0" + stage));
  EXPECT_THAT(range(9).then<AssertCardinalityOperator>(1).elements(),
              ElementsAre("x=0", begins + "1 elements were asserted, there are at least 2" + stage));
  EXPECT_THAT(range(9).then<AssertCardinalityOperator>(0).elements(),
              ElementsAre(begins + "0 elements were asserted, there are at least 1" + stage));
  EXPECT_EQ(range(3).then<RepeatOperator>(-1).then<AssertCardinalityOperator>(4).elements().size(), 5U);
}

TEST(AssertCardinality, MinusOneIsInfinite) {
  const Chain endless = range(3).then<RepeatOperator>(-1).then<AssertCardinalityOperator>(-1);
  EXPECT_EQ(endless.cardinality(), Cardinality::infinite());
  EXPECT_EQ(endless.run(0, 7).elements.back(), "x=0");
  EXPECT_THAT(range(1).then<AssertCardinalityOperator>(-1).elements(),
              ElementsAre("x=0",
                          "error: cardinality: infinitely many elements were asserted, there are 1 "
                          "(stage assert_cardinality)"));
}

TEST(AssertCardinality, RefusesANegativeNumber) {
  EXPECT_THROW(range(5).then<AssertCardinalityOperator>(-2), ErrorException);
}

}  // namespace
}  // namespace millrace::assert_cardinality_test

#include "millrace/ops/flow/take_while.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/ops/flow/repeat.h"
#include "millrace/ops/sources/range.h"
#include "tests/support/operator_chain.h"

namespace millrace::take_while_test {
namespace {

using test::Chain;
using test::FaultyRange;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

RowPredicate below(int64_t limit) {
  return {"below", [limit](const RowView& row) { return row.value<int64_t>("x") < limit; }};
}

TEST(TakeWhileTest, EndsBeforeTheFirstElementThatIsFalseAndDoesNotGoOn) {
  const Chain range = Chain::source<RangeOperator>(0, 4, 1, "x");
  EXPECT_THAT(range.then<RepeatOperator>(2).then<TakeWhileOperator>(below(3)).elements(),
              ElementsAre("x=0", "x=1", "x=2"));
  EXPECT_THAT(range.then<TakeWhileOperator>(below(0)).elements(), ElementsAre());
  EXPECT_THAT(range.then<TakeWhileOperator>(below(9)).elements(), ElementsAre("x=0", "x=1", "x=2", "x=3"));
  EXPECT_THAT(range.then<TakeWhileOperator>(below(1)).then<RepeatOperator>(2).elements(), ElementsAre("x=0", "x=0"));
}

TEST(TakeWhileTest, ErrorsPassAndWhatThePredicateThrowsIsOne) {
  const Chain input = Chain::source<FaultyRange>(6, std::vector<int64_t>{1}, std::vector<int64_t>{2});
  const RowPredicate predicate{"odd", [](const RowView& row) {
                                 if (row.value<int64_t>("x") == 3) throw std::runtime_error("three");
                                 return row.value<int64_t>("x") < 5;
                               }};
  EXPECT_THAT(input.then<TakeWhileOperator>(predicate).elements(),
              ElementsAre("x=0", HasSubstr("at 1"), HasSubstr("note at 2"),
                          "error: user_function: take_while 'odd': three", "x=4"));
}

TEST(TakeWhileTest, RefusesNoPredicate) {
  const Chain range = Chain::source<RangeOperator>(0, 4, 1, "x");
  EXPECT_THROW(range.then<TakeWhileOperator>(RowPredicate{}), ErrorException);
}

}  // namespace
}  // namespace millrace::take_while_test

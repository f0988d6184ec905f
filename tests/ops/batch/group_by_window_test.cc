#include "millrace/ops/batch/group_by_window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/ops/sources/range.h"
#include "millrace/ops/sources/rows.h"
#include "tests/support/operator_chain.h"

namespace millrace::group_by_window_test {
namespace {

using test::Chain;
using test::FaultyRange;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Rows = std::vector<std::vector<int64_t>>;

Chain range(int64_t start, int64_t stop) { return Chain::source<RangeOperator>(start, stop, 1, "x"); }
RowKey modulo(int64_t k) {
  return {"modulo", [k](const RowView& row) { return row.value<int64_t>("x") % k; }};
}

template <typename Function>
std::string refusal(Function&& function) {
  try {
    function();
  } catch (const ErrorException& e) {
    EXPECT_EQ(e.error().code, ErrorCode::kInvalidArgument);
    return e.error().message;
  }
  return "accepted";
}

TEST(GroupByWindowTest, BatchesEqualKeysAndTheRestAtTheEndInTheirOrder) {
  EXPECT_THAT(range(0, 7).then<GroupByWindowOperator>(modulo(2), 2).elements(),
              ElementsAre("x=[0,2]", "x=[1,3]", "x=[4,6]", "x=[5]"));
  EXPECT_THAT(range(0, 7).then<GroupByWindowOperator>(modulo(2), 2, BatchOptions{.drop_remainder = true}).elements(),
              ElementsAre("x=[0,2]", "x=[1,3]", "x=[4,6]"));
  EXPECT_THAT(range(-4, 3).then<GroupByWindowOperator>(modulo(3), 9).elements(),
              ElementsAre("x=[-2]", "x=[-4,-1]", "x=[-3,0]", "x=[1]", "x=[2]"));
  EXPECT_THAT(range(0, 0).then<GroupByWindowOperator>(modulo(3), 9).elements(), testing::IsEmpty());
}

TEST(GroupByWindowTest, KnowsKeysOfAnySizeAndManyOfThem) {
  const RowKey large{"large", [](const RowView& row) { return (row.value<int64_t>("x") % 3000 - 1000) * (1LL << 50); }};
  const auto elements = range(0, 6000).then<GroupByWindowOperator>(large, 2).run().elements;
  ASSERT_EQ(elements.size(), 3000u);
  EXPECT_EQ(elements[0], "x=[0,3000]");
  EXPECT_EQ(elements[2999], "x=[2999,5999]");
}

TEST(GroupByWindowTest, TheSizeMayDependOnTheKey) {
  const WindowSize size = WindowSize::by_key("key and one", [](int64_t key) { return key + 1; });
  EXPECT_THAT(range(0, 6).then<GroupByWindowOperator>(modulo(3), size).elements(),
              ElementsAre("x=[0]", "x=[3]", "x=[1,4]", "x=[2,5]"));
}

TEST(GroupByWindowTest, PadsOrLeavesLengthsAsTheyAre) {
  const Chain rows = Chain::source<RowsOperator>(
      std::vector<MemoryFeature>{{"x", std::vector<int64_t>{0, 1, 2}}, {"t", Rows{{1}, {2, 2}, {3, 3, 3}}}});
  EXPECT_THAT(rows.then<GroupByWindowOperator>(modulo(2), 2, PaddedBatchOptions{.value = -1}).elements(),
              ElementsAre("x=[0,2] t=[[1,-1,-1],[3,3,3]]", "x=[1] t=[[2,2]]"));
  EXPECT_THAT(rows.then<GroupByWindowOperator>(modulo(2), 2, RaggedBatchOptions{}).elements(),
              ElementsAre("x=[0,2] t=[[1],[3,3,3]]", "x=[1] t=[[2,2]]"));
  EXPECT_THAT(
      rows.then<GroupByWindowOperator>(modulo(2), 2).elements(),
      ElementsAre(HasSubstr("group_by_window: feature 't' has shape [1] in the batch's first row and [3] in row 1"),
                  "x=[1] t=[[2,2]]"));
}

TEST(GroupByWindowTest, AnErrorTakesNothingFromOpenGroups) {
  const auto faulty = Chain::of(std::make_shared<FaultyRange>(6, std::vector<int64_t>{2, 3}));
  EXPECT_THAT(faulty.then<GroupByWindowOperator>(modulo(2), 2).elements(),
              ElementsAre(HasSubstr("at 2"), HasSubstr("at 3"), "x=[0,4]", "x=[1,5]"));
}

TEST(GroupByWindowTest, WhereAFunctionThrowsTheElementIsTheError) {
  const RowKey failing{"failing", [](const RowView& row) -> int64_t {
                         if (row.value<int64_t>("x") == 1) throw std::runtime_error("not this one");
                         return 0;
                       }};
  EXPECT_THAT(range(0, 3).then<GroupByWindowOperator>(failing, 2).elements(),
              ElementsAre("error: user_function: group_by_window 'failing': not this one", "x=[0,2]"));
  const WindowSize none = WindowSize::by_key("none", [](int64_t key) { return 2 * key; });
  EXPECT_THAT(range(0, 4).then<GroupByWindowOperator>(modulo(2), none).elements(),
              ElementsAre("error: user_function: group_by_window 'none': gave 0 for key 0; a window has at least one "
                          "element",
                          HasSubstr("for key 0"), "x=[1,3]"));
}

TEST(GroupByWindowTest, RefusesWhatCannotBe) {
  EXPECT_EQ(refusal([] { range(0, 3).then<GroupByWindowOperator>(modulo(2), 0); }),
            "group_by_window: window_size must be at least 1, not 0");
  EXPECT_EQ(refusal([] {
              range(0, 3).then<GroupByWindowOperator>(RowKey{"none", nullptr}, 1);
            }),
            "group_by_window: no key function given");
  EXPECT_THAT(refusal([] { WindowSize::by_key("none", nullptr); }), HasSubstr("no function"));
}

}  // namespace
}  // namespace millrace::group_by_window_test

#include "millrace/ops/batch/window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/ops/combine/choose_from_datasets.h"
#include "millrace/ops/features/cast.h"
#include "millrace/ops/flow/rejection_resample.h"
#include "millrace/ops/sources/from_generator.h"
#include "millrace/ops/sources/range.h"
#include "millrace/ops/sources/rows.h"
#include "tests/support/operator_chain.h"

namespace millrace::window_test {
namespace {

using test::Chain;
using test::FaultyRange;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Rows = std::vector<std::vector<int64_t>>;

Chain range(int64_t count) { return Chain::source<RangeOperator>(0, count, 1, "x"); }

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

TEST(WindowTest, WindowsOverlapFollowOrLeaveElementsOut) {
  EXPECT_THAT(range(5).then<WindowOperator>(3, WindowOptions{.shift = 1}).elements(),
              ElementsAre("x=[0,1,2]", "x=[1,2,3]", "x=[2,3,4]", "x=[3,4]", "x=[4]"));
  EXPECT_THAT(range(5).then<WindowOperator>(2).elements(), ElementsAre("x=[0,1]", "x=[2,3]", "x=[4]"));
  EXPECT_THAT(range(9).then<WindowOperator>(2, WindowOptions{.shift = 4}).elements(),
              ElementsAre("x=[0,1]", "x=[4,5]", "x=[8]"));
  EXPECT_THAT(range(7).then<WindowOperator>(3, WindowOptions{.shift = 1, .stride = 2}).elements(),
              ElementsAre("x=[0,2,4]", "x=[1,3,5]", "x=[2,4,6]", "x=[3,5]", "x=[4,6]", "x=[5]", "x=[6]"));
  EXPECT_THAT(range(0).then<WindowOperator>(3).elements(), IsEmpty());
}

TEST(WindowTest, DropsWindowsThatAreNotComplete) {
  EXPECT_THAT(
      range(5).then<WindowOperator>(3, WindowOptions{.shift = 1}, BatchOptions{.drop_remainder = true}).elements(),
      ElementsAre("x=[0,1,2]", "x=[1,2,3]", "x=[2,3,4]"));
  EXPECT_THAT(range(7)
                  .then<WindowOperator>(2, WindowOptions{.shift = 3, .stride = 2}, BatchOptions{.drop_remainder = true})
                  .elements(),
              ElementsAre("x=[0,2]", "x=[3,5]"));
}

TEST(WindowTest, LongWindowsReachOverManyBlocks) {
  const auto elements =
      range(9000).then<WindowOperator>(3000, WindowOptions{.shift = 2500}, BatchOptions{.drop_remainder = true}).run();
  ASSERT_EQ(elements.elements.size(), 3u);
  EXPECT_THAT(elements.elements[2], HasSubstr("x=[5000,5001,"));
  EXPECT_THAT(elements.elements[2], HasSubstr(",7999]"));
  EXPECT_THAT(elements.rows, ElementsAre(3000, 3000, 3000));
}

TEST(WindowTest, WindowsOfRowsOfUnlikeLengthsArePaddedOrRagged) {
  const Chain rows = Chain::source<RowsOperator>(std::vector<MemoryFeature>{{"t", Rows{{1}, {2, 2}, {3, 3}}}});
  const WindowOptions overlapping{.shift = 1};
  EXPECT_THAT(rows.then<WindowOperator>(2, overlapping, PaddedBatchOptions{.drop_remainder = true}).elements(),
              ElementsAre("t=[[1,0],[2,2]]", "t=[[2,2],[3,3]]"));
  EXPECT_THAT(rows.then<WindowOperator>(2, overlapping, RaggedBatchOptions{}).elements(),
              ElementsAre("t=[[1],[2,2]]", "t=[[2,2],[3,3]]", "t=[[3,3]]"));
  EXPECT_THAT(rows.then<WindowOperator>(2, overlapping).elements(),
              ElementsAre(HasSubstr("window: feature 't' has shape [1]"), "t=[[2,2],[3,3]]", "t=[[3,3]]"));
}

TEST(WindowTest, ErrorsOfTheDataAreToldWhereNoWindowTakesThem) {
  const auto faulty = [](int64_t count, std::vector<int64_t> faults) {
    return Chain::of(std::make_shared<FaultyRange>(count, std::move(faults)));
  };
  const BatchOptions drop{.drop_remainder = true};
  EXPECT_THAT(faulty(3, {1}).then<WindowOperator>(128, WindowOptions{}, drop).elements(),
              ElementsAre(HasSubstr("at 1")));
  EXPECT_THAT(faulty(10, {9}).then<WindowOperator>(4, WindowOptions{}, drop).elements(),
              ElementsAre("x=[0,1,2,3]", "x=[4,5,6,7]", HasSubstr("at 9")));
  EXPECT_THAT(faulty(9, {1, 3, 8}).then<WindowOperator>(2, WindowOptions{.shift = 4}).elements(),
              ElementsAre(HasSubstr("at 1"), HasSubstr("at 3"), "x=[4,5]", HasSubstr("at 8")));
  // Between the elements of windows, too: these take 0 2, 4 6 and 8.
  EXPECT_THAT(faulty(9, {1, 7}).then<WindowOperator>(2, WindowOptions{.shift = 4, .stride = 2}).elements(),
              ElementsAre(HasSubstr("at 1"), "x=[0,2]", "x=[4,6]", HasSubstr("at 7"), "x=[8]"));
}

TEST(WindowTest, ABadChoiceGoesWithItsElement) {
  const Chain choices =
      Chain::source<RowsOperator>(std::vector<MemoryFeature>{{"choice", std::vector<int64_t>{0, 0, 7}}});
  const Chain chosen = Chain::join<ChooseFromDatasetsOperator>({choices, range(9)}, ChooseOptions{});
  EXPECT_THAT(chosen.then<WindowOperator>(2, WindowOptions{}, BatchOptions{.drop_remainder = true}).elements(),
              ElementsAre("x=[0,1]"));
  EXPECT_THAT(chosen.then<WindowOperator>(1, WindowOptions{.shift = 4}).elements(), ElementsAre("x=[0]"));
  EXPECT_THAT(chosen.then<WindowOperator>(3, WindowOptions{}).elements(), ElementsAre(HasSubstr("choice 7")));
}

TEST(WindowTest, ANumberThatDoesNotFitACastAndAClassThatIsNoneGoWithTheirElements) {
  const Chain large =
      Chain::source<RowsOperator>(std::vector<MemoryFeature>{{"x", std::vector<int64_t>{0, 1, int64_t{1} << 40, 3}}});
  const WindowOptions every_third{.shift = 3};
  EXPECT_THAT(large.then<CastOperator>("x", DType::kInt32).then<WindowOperator>(2, every_third).elements(),
              ElementsAre("x=[0,1]", "x=[3]"));
  const RejectionResampleOptions options{.feature = "x", .target_distribution = {1, 1}, .initial_distribution = {1, 1}};
  EXPECT_THAT(large.then<RejectionResampleOperator>(options)
                  .then<WindowOperator>(2, every_third, BatchOptions{.drop_remainder = true})
                  .elements(),
              ElementsAre("x=[0,1]"));
}

// What comes after a generator that failed is missing: no window may hide that.
TEST(WindowTest, AnErrorThatEndsTheStreamIsToldWhateverItsCode) {
  const GeneratorRuns fails =
      GeneratorRuns::replayed([](const Iteration&) -> NextElement { throw std::runtime_error("no such file"); });
  const Chain chain = Chain::source<FromGeneratorOperator>(
      Generator{.name = "rows", .gives = {{.name = "x", .dtype = DType::kInt64, .shape = {}}}, .runs = fails});
  EXPECT_THAT(chain.then<WindowOperator>(4, WindowOptions{}, BatchOptions{.drop_remainder = true}).elements(),
              ElementsAre(HasSubstr("no such file")));
}

TEST(WindowTest, EveryWindowThatTakesAnErrorIsThatErrorAndOthersAreNot) {
  const auto faulty = Chain::of(std::make_shared<FaultyRange>(6, std::vector<int64_t>{2}));
  EXPECT_THAT(
      faulty.then<WindowOperator>(2, WindowOptions{.shift = 1}, BatchOptions{.drop_remainder = true}).elements(),
      ElementsAre("x=[0,1]", HasSubstr("at 2"), HasSubstr("at 2"), "x=[3,4]", "x=[4,5]"));
  EXPECT_THAT(faulty.then<WindowOperator>(2, WindowOptions{.shift = 3}).elements(),
              ElementsAre("x=[0,1]", HasSubstr("at 2"), "x=[3,4]"));
  EXPECT_THAT(faulty.then<WindowOperator>(2, WindowOptions{.shift = 3, .stride = 2}).elements(),
              ElementsAre(HasSubstr("at 2"), "x=[3,5]"));
}

TEST(WindowTest, RefusesWhatCannotBe) {
  EXPECT_EQ(refusal([] { range(3).then<WindowOperator>(0); }), "window: size must be at least 1, not 0");
  EXPECT_EQ(refusal([] { range(3).then<WindowOperator>(2, WindowOptions{.shift = 0}); }),
            "window: shift must be at least 1, not 0");
  EXPECT_EQ(refusal([] { range(3).then<WindowOperator>(2, WindowOptions{.stride = 0}); }),
            "window: stride must be at least 1, not 0");
  EXPECT_THAT(refusal([] { range(3).then<WindowOperator>(1LL << 39, WindowOptions{.stride = 1 << 30}); }),
              HasSubstr("span too much"));
}

}  // namespace
}  // namespace millrace::window_test

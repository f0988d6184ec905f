#include "millrace/ops/combine/choose_from_datasets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/ops/batch/batch.h"
#include "millrace/ops/flow/repeat.h"
#include "millrace/ops/sources/range.h"
#include "millrace/ops/sources/rows.h"
#include "tests/support/operator_chain.h"

namespace millrace::choose_from_datasets_test {
namespace {

using test::Chain;
using test::FaultyRange;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Chain range(int64_t start, int64_t stop) { return Chain::source<RangeOperator>(start, stop, 1, "x"); }
Chain list(std::vector<int64_t> values) {
  return Chain::source<RowsOperator>(std::vector<MemoryFeature>{{"choice", std::move(values)}});
}

Chain choose(const Chain& choices, std::vector<Chain> inputs, bool stop_on_empty = false) {
  inputs.insert(inputs.begin(), choices);
  return Chain::join<ChooseFromDatasetsOperator>(inputs, ChooseOptions{.stop_on_empty = stop_on_empty});
}

// What a stage throws is the last element.
std::vector<std::string> elements_until_it_throws(const Chain& chain) {
  BufferPool pool;
  test::CountingWaker waker;
  InlineLanes lanes;
  const auto stage = chain.opener(0)({pool, waker, {}, lanes});
  std::vector<std::string> elements;
  try {
    while (true) {
      Block block;
      const Poll poll = stage->next(block);
      if (poll == Poll::kEnd) return elements;
      for (size_t i = 0; i < block.num_elements(); ++i) elements.push_back(test::print_element(block, i));
    }
  } catch (const ErrorException& failed) {
    elements.emplace_back(failed.what());
  }
  return elements;
}

TEST(ChooseFromDatasetsTest, TakesWhatTheChoicesSay) {
  EXPECT_THAT(choose(list({0, 1, 1, 0}), {range(0, 9), range(10, 19)}).elements(),
              ElementsAre("x=0", "x=10", "x=11", "x=1"));
  EXPECT_THAT(choose(list({}), {range(0, 9)}).elements(), ElementsAre());
}

TEST(ChooseFromDatasetsTest, AnInputThatHasEndedIsPassedOverOrEndsTheWhole) {
  const Chain choices = list({0, 1, 0, 0, 1, 1});
  const std::vector<Chain> inputs{range(0, 2), range(10, 15)};
  EXPECT_THAT(choose(choices, inputs).elements(), ElementsAre("x=0", "x=10", "x=1", "x=11", "x=12"));
  EXPECT_THAT(choose(choices, inputs, true).elements(), ElementsAre("x=0", "x=10", "x=1"));
  // Found only when it is chosen.
  EXPECT_THAT(choose(list({0, 0, 1}), inputs, true).elements(), ElementsAre("x=0", "x=1", "x=10"));
}

TEST(ChooseFromDatasetsTest, EndsWhenNoInputHasElementsHoweverManyChoicesThereAre) {
  const Chain for_ever = list({0, 1}).then<RepeatOperator>(-1);
  EXPECT_THAT(choose(for_ever, {range(0, 1), range(5, 7)}).elements(), ElementsAre("x=0", "x=5", "x=6"));
}

TEST(ChooseFromDatasetsTest, ChoosingWhatHasEndedForEverIsAnErrorInTheEnd) {
  const Chain for_ever = list(std::vector<int64_t>(4096, 0)).then<RepeatOperator>(-1);
  EXPECT_THAT(elements_until_it_throws(choose(for_ever, {range(0, 2), range(5, 7)})),
              ElementsAre("x=0", "x=1", HasSubstr("choices one after the other are of inputs that have ended")));
}

TEST(ChooseFromDatasetsTest, LongRunsOfOneInputAreTheSameStream) {
  std::vector<int64_t> choices;
  std::vector<std::string> expected;
  int64_t next[] = {0, 10000};
  for (int64_t run = 1; run < 90; run += 7) {
    for (int64_t i = 0; i < run * run / 4; ++i) {
      choices.push_back(run % 2);
      expected.push_back("x=" + std::to_string(next[run % 2]++));
    }
  }
  EXPECT_EQ(choose(list(choices), {range(0, 9000), range(10000, 19000)}).elements(), expected);
}

TEST(ChooseFromDatasetsTest, ANumberThatIsNoInputsIsAnErrorInItsPlace) {
  EXPECT_THAT(choose(list({0, 2, -1, 1}), {range(0, 9), range(10, 19)}).elements(),
              ElementsAre("x=0", "error: out_of_range: choose_from_datasets: choice 2 of 2 inputs",
                          "error: out_of_range: choose_from_datasets: choice -1 of 2 inputs", "x=10"));
}

TEST(ChooseFromDatasetsTest, ErrorsPassAndNotesUseUpNoChoice) {
  const Chain input = Chain::source<FaultyRange>(6, std::vector<int64_t>{1}, std::vector<int64_t>{2, 3});
  EXPECT_THAT(
      choose(list({0, 0, 0, 1, 0}), {input, range(10, 19)}).elements(),
      ElementsAre("x=0", HasSubstr("at 1"), HasSubstr("note at 2"), HasSubstr("note at 3"), "x=4", "x=10", "x=5"));
  const Chain choices = Chain::source<FaultyRange>(3, std::vector<int64_t>{1}, std::vector<int64_t>{0});
  EXPECT_THAT(choose(choices, {range(0, 9), range(10, 19), range(20, 29)}).elements(),
              ElementsAre(HasSubstr("note at 0"), HasSubstr("at 1"), "x=20"));
}

TEST(ChooseFromDatasetsTest, BatchesOfAnySizeKeepTheirRows) {
  const test::Stream stream =
      choose(list({0, 1, 0, 1, 0, 5}), {range(0, 5).then<BatchOperator>(3), range(10, 20).then<BatchOperator>(4)})
          .run();
  EXPECT_THAT(stream.elements,
              ElementsAre("x=[0,1,2]", "x=[10,11,12,13]", "x=[3,4]", "x=[14,15,16,17]", HasSubstr("choice 5")));
  EXPECT_THAT(stream.rows, ElementsAre(3, 4, 2, 4, 1));
}

TEST(ChooseFromDatasetsTest, ChoosingWhatHasEndedForEverLetsOthersRun) {
  const Chain chain = choose(list({0}).then<RepeatOperator>(-1), {range(0, 1), range(5, 7)});
  BufferPool pool;
  test::CountingWaker waker;
  InlineLanes lanes;
  const auto stage = chain.opener(0)({pool, waker, {}, lanes});
  Block block;
  EXPECT_EQ(stage->next(block), Poll::kBlock);
  EXPECT_EQ(stage->next(block), Poll::kPending);
  EXPECT_GT(waker.wakes, 0);
}

TEST(ChooseFromDatasetsTest, RefusesChoicesThatAreNoNumbers) {
  const auto error_of = [](const Chain& choices) {
    try {
      choose(choices, {range(0, 1)});
    } catch (const ErrorException& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(error_of(list({0}).then<BatchOperator>(2)),
            "invalid_argument: choose_from_datasets: choices must have one feature, an int64 scalar, not choice int64 "
            "[?]");
  EXPECT_EQ(error_of(list({0})), "none");
}

TEST(ChooseFromDatasetsTest, CardinalityIsUnknownOrThatOfAnInfiniteInput) {
  const Chain finite = range(0, 5);
  EXPECT_EQ(choose(list({0}), {finite, finite}).cardinality().to_string(), "unknown");
  EXPECT_EQ(choose(list({0}), {finite, finite.then<RepeatOperator>(-1)}).cardinality().to_string(), "infinite");
  EXPECT_EQ(choose(list({0}).then<RepeatOperator>(-1), {finite}).cardinality().to_string(), "unknown");
}

}  // namespace
}  // namespace millrace::choose_from_datasets_test

#include "millrace/ops/combine/flat_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/ops/flow/repeat.h"
#include "millrace/ops/sources/range.h"
#include "millrace/ops/sources/rows.h"
#include "millrace/pipeline/dataset.h"
#include "tests/support/operator_chain.h"

namespace millrace::flat_map_test {
namespace {

using test::Chain;
using test::FaultyRange;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Chain range(int64_t start, int64_t stop) { return Chain::source<RangeOperator>(start, stop, 1, "x"); }

// 0, 1 … before x; for 7 it throws, and for 9 a builder that it calls.
Chain up_to_x(const Chain& input) {
  NestedFunction function;
  function.name = "up_to_x";
  function.schema = RangeOperator(0, 1, 1, "y").schema();
  function.open = [](const RowView& row) {
    const auto x = row.value<int64_t>("x");
    if (x == 7) throw std::runtime_error("seven");
    if (x == 9) (void)RangeOperator(0, 1, 0);
    return Chain::source<RangeOperator>(0, x, 1, "y").opener(0);
  };
  return Chain::of(std::make_shared<FlatMapOperator>(function), {input});
}

TEST(FlatMapTest, GivesTheElementsOfTheDatasetOfEachElement) {
  const Chain numbers = Chain::source<RowsOperator>(std::vector<MemoryFeature>{{"x", std::vector<int64_t>{2, 0, 3}}});
  EXPECT_THAT(up_to_x(numbers).elements(), ElementsAre("y=0", "y=1", "y=0", "y=1", "y=2"));
  EXPECT_THAT(up_to_x(range(0, 1)).elements(), ElementsAre());
  EXPECT_THAT(up_to_x(range(0, 0)).elements(), ElementsAre());
  EXPECT_EQ(up_to_x(range(1500, 1502)).elements().size(), 3001u);
}

TEST(FlatMapTest, ErrorsPassAndWhatTheFunctionThrowsIsOne) {
  const Chain input = Chain::source<FaultyRange>(4, std::vector<int64_t>{1}, std::vector<int64_t>{2});
  EXPECT_THAT(up_to_x(input).elements(), ElementsAre(HasSubstr("at 1"), HasSubstr("note at 2"), "y=0", "y=1", "y=2"));
  EXPECT_EQ(up_to_x(range(7, 9)).elements()[0], "error: user_function: flat_map 'up_to_x': seven");
  EXPECT_EQ(up_to_x(range(7, 9)).elements().size(), 9u);
  // What the function did wrong is no argument of the pipeline's.
  EXPECT_THAT(up_to_x(range(9, 10)).elements(),
              ElementsAre("error: user_function: flat_map 'up_to_x': range: step must not be 0"));
}

TEST(FlatMapTest, EmptyDatasetsWithoutAnEndLetOthersRun) {
  const Chain chain = up_to_x(range(0, 1).then<RepeatOperator>(-1));
  BufferPool pool;
  test::CountingWaker waker;
  InlineLanes lanes;
  const auto stage = chain.opener(0)({pool, waker, {}, lanes});
  Block block;
  EXPECT_EQ(stage->next(block), Poll::kPending);
  EXPECT_GT(waker.wakes, 0);
}

TEST(FlatMapTest, OfListedInputsGivesOneAfterTheOther) {
  EXPECT_THAT(Chain::join<FlatMapInputsOperator>({range(0, 2), range(5, 5), range(8, 10)}).elements(),
              ElementsAre("x=0", "x=1", "x=8", "x=9"));
  EXPECT_EQ(Chain::join<FlatMapInputsOperator>({range(0, 3000), range(0, 1)}).elements().size(), 3001u);
  EXPECT_TRUE(Chain::join<FlatMapInputsOperator>({range(0, 2)}).cardinality().is_unknown());
}

std::vector<int64_t> values(const Dataset& dataset) {
  Pipeline pipeline = dataset.start({.threads = 2});
  std::vector<int64_t> all;
  while (const std::optional<Batch> batch = pipeline.next()) all.push_back(batch->values<int64_t>("y")[0]);
  return all;
}

DatasetFunction ten_shuffled() {
  DatasetFunction function;
  function.name = "ten_shuffled";
  function.gives = {{.name = "y", .dtype = DType::kInt64, .shape = {}}};
  function.make = [](const RowView& row) {
    const auto x = row.value<int64_t>("x");
    return Dataset::range(10 * x, 10 * x + 10, 1, "y").shuffle(10, {.seed = 1}).add("y", int64_t{100});
  };
  return function;
}

TEST(FlatMapTest, TakesDatasetsOfTheBuilderAndEachDrawsItsOwnNumbers) {
  const std::vector<int64_t> all = values(Dataset::range(0, 3, 1, "x").flat_map(ten_shuffled()));
  ASSERT_EQ(all.size(), 30u);
  std::vector<int64_t> first;
  std::vector<int64_t> second;
  for (size_t i = 0; i < 10; ++i) {
    first.push_back(all[i] - 100);
    second.push_back(all[10 + i] - 110);
  }
  EXPECT_NE(first, second);
  EXPECT_THAT(first, testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(second, testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST(FlatMapTest, ADatasetOfOtherFeaturesIsAnErrorOfItsElement) {
  DatasetFunction function = ten_shuffled();
  function.make = [](const RowView&) { return Dataset::range(0, 3, 1, "z"); };
  EXPECT_THAT(
      [&] { values(Dataset::range(0, 3, 1, "x").flat_map(function)); },
      testing::ThrowsMessage<ErrorException>(HasSubstr("flat_map 'ten_shuffled': flat_map: inputs have different")));
  function.make = nullptr;
  EXPECT_THROW((void)Dataset::range(0, 3, 1, "x").flat_map(function), ErrorException);
}

}  // namespace
}  // namespace millrace::flat_map_test

#include "millrace/ops/combine/concatenate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/ops/flow/repeat.h"
#include "millrace/ops/flow/shuffle.h"
#include "millrace/ops/sources/range.h"
#include "millrace/ops/sources/rows.h"
#include "tests/support/operator_chain.h"

namespace millrace::concatenate_test {
namespace {

using test::Chain;
using test::FaultyRange;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Chain range(int64_t start, int64_t stop) { return Chain::source<RangeOperator>(start, stop, 1, "x"); }
Chain concatenate(const std::vector<Chain>& inputs) { return Chain::join<ConcatenateOperator>(inputs); }

TEST(ConcatenateTest, GivesOneInputAfterTheOther) {
  EXPECT_THAT(concatenate({range(0, 2), range(5, 5), range(8, 10)}).elements(),
              ElementsAre("x=0", "x=1", "x=8", "x=9"));
  EXPECT_THAT(concatenate({range(0, 0)}).elements(), ElementsAre());
}

TEST(ConcatenateTest, ErrorsPassAndTheNextInputsCome) {
  EXPECT_THAT(concatenate({Chain::source<FaultyRange>(2, std::vector<int64_t>{1}), range(7, 8)}).elements(),
              ElementsAre("x=0", HasSubstr("at 1"), "x=7"));
}

TEST(ConcatenateTest, RowsHaveTheEpochOfTheWhole) {
  const Chain whole = concatenate({range(0, 1).then<RepeatOperator>(2), range(5, 6)}).then<RepeatOperator>(2);
  const test::Stream stream = whole.run();
  EXPECT_THAT(stream.elements, ElementsAre("x=0", "x=0", "x=5", "x=0", "x=0", "x=5"));
  EXPECT_THAT(stream.epochs, ElementsAre(0, 0, 0, 1, 1, 1));
}

TEST(ConcatenateTest, EqualSeedsInTwoInputsGiveOtherOrders) {
  const Chain shuffled = range(0, 100).then<ShuffleOperator>(100, ShuffleOptions{.seed = 3});
  const std::vector<std::string> both = concatenate({shuffled, shuffled}).elements();
  ASSERT_EQ(both.size(), 200u);
  EXPECT_FALSE(std::equal(both.begin(), both.begin() + 100, both.begin() + 100));
}

TEST(ConcatenateTest, FeaturesMayComeInAnyOrderAndDifferInSizes) {
  const auto rows = [](std::vector<MemoryFeature> features) {
    return Chain::source<RowsOperator>(std::move(features));
  };
  using Ids = std::vector<int64_t>;
  using Tokens = std::vector<std::vector<int64_t>>;
  const Chain whole =
      concatenate({rows({{"id", Ids{1}}, {"tokens", Tokens{{5, 6}}}}), rows({{"tokens", Tokens{{7}}}, {"id", Ids{2}}}),
                   rows({{"id", Ids{3, 4}}, {"tokens", Tokens{{}, {8, 9}}}})});
  EXPECT_EQ(whole.schema()->to_string(), "id int64 [], tokens int64 [?]");
  EXPECT_THAT(whole.elements(),
              ElementsAre("id=1 tokens=[5,6]", "id=2 tokens=[7]", "id=3 tokens=[]", "id=4 tokens=[8,9]"));
}

TEST(ConcatenateTest, RefusesOtherFeaturesAndNoInputs) {
  const auto error_of = [](const std::vector<SchemaPtr>& inputs) {
    try {
      ConcatenateOperator refused(inputs);
    } catch (const ErrorException& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  const auto schema = [](const std::string& name, DType dtype, Shape shape) {
    return std::make_shared<const Schema>(
        std::vector<FeatureSpec>{{.name = name, .dtype = dtype, .shape = std::move(shape)}});
  };
  const SchemaPtr x = schema("x", DType::kInt64, {2});
  EXPECT_EQ(error_of({x, schema("x", DType::kInt64, {3})}), "none");
  EXPECT_EQ(
      error_of({x, x, schema("y", DType::kInt64, {2})}),
      "invalid_argument: concatenate: inputs have different features: x int64 [2] and, input 2, y int64 [2]; make "
      "them alike first, with cast, rename, select, batch or unbatch");
  EXPECT_THAT(error_of({x, schema("x", DType::kInt32, {2})}), HasSubstr("x int64 [2] and, input 1, x int32 [2]"));
  EXPECT_THAT(error_of({x, schema("x", DType::kInt64, {2, 1})}), HasSubstr("x int64 [2,1]"));
  EXPECT_THAT(error_of({schema("x", DType::kInt64, {3, kRagged}), schema("x", DType::kInt64, {3, 2})}),
              HasSubstr("x int64 [3,2]"));
  EXPECT_EQ(error_of({}), "invalid_argument: concatenate: there are no inputs");
}

TEST(ConcatenateTest, CardinalityIsTheSum) {
  const auto of = [](std::vector<Cardinality> inputs) {
    return ConcatenateOperator(std::vector<SchemaPtr>{record_schema()}).cardinality(inputs).to_string();
  };
  EXPECT_EQ(of({Cardinality::known(5), Cardinality::known(3)}), "8");
  EXPECT_EQ(of({Cardinality::infinite(), Cardinality::known(3)}), "infinite");
  EXPECT_EQ(of({Cardinality::known(5), Cardinality::unknown()}), "unknown");
  EXPECT_EQ(of({Cardinality::unknown(), Cardinality::infinite()}), "infinite");
  EXPECT_EQ(of({Cardinality::known(INT64_MAX), Cardinality::known(1)}), "unknown");
}

}  // namespace
}  // namespace millrace::concatenate_test

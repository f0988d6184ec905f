#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/ops/batch/batch.h"
#include "millrace/ops/features/arithmetic.h"
#include "millrace/ops/features/cast.h"
#include "millrace/ops/features/map.h"
#include "millrace/ops/flow/filter.h"
#include "millrace/ops/sources/range.h"
#include "millrace/ops/sources/rows.h"
#include "tests/support/operator_chain.h"

namespace millrace::map_filter_test {
namespace {

using test::Chain;
using test::FaultyRange;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Chain range(int64_t count) { return Chain::source<RangeOperator>(0, count, 1, "x"); }
Chain tokens(const std::vector<std::vector<int64_t>>& rows) {
  return Chain::source<RowsOperator>(std::vector<MemoryFeature>{{"tokens", rows}});
}

TEST(MapTest, ARowFunctionAddsFeaturesAndReplacesOthers) {
  const Chain mapped = tokens({{1, 2}, {3}, {}})
                           .then<MapRowsOperator>(RowFunction{
                               .name = "describe",
                               .writes = {{.name = "length", .dtype = DType::kInt32, .shape = {}},
                                          {.name = "tokens", .dtype = DType::kInt64, .shape = {kVaries}},
                                          {.name = "words", .dtype = DType::kBytes, .shape = {kVaries}},
                                          {.name = "name", .dtype = DType::kBytes, .shape = {}},
                                          {.name = "ones", .dtype = DType::kFloat32, .shape = {2, kVaries}}},
                               .function = [](const RowView& row, RowWriter& out) {
                                 const auto values = row.values<int64_t>("tokens");
                                 const auto length = static_cast<int32_t>(values.size());
                                 out.set("length", length);
                                 const std::vector<int64_t> reversed(values.rbegin(), values.rend());
                                 out.set_values<int64_t>("tokens", reversed);
                                 const std::vector<std::string_view> words(values.size(), "word");
                                 out.set_values<std::string_view>("words", words);
                                 out.set("name", "row " + std::to_string(row.ordinal()));
                                 for (float& one : out.make<float>("ones", std::vector<int64_t>{2, length})) one = 1;
                               }});
  EXPECT_THAT(mapped.elements(), ElementsAre("tokens=[2,1] length=2 words=[word,word] name=row 0 ones=[[1,1],[1,1]]",
                                             "tokens=[3] length=1 words=[word] name=row 1 ones=[[1],[1]]",
                                             "tokens=[] length=0 words=[] name=row 2 ones=[[],[]]"));
}

TEST(MapTest, WithoutTheOtherFeaturesOnlyTheWrittenOnesRemain) {
  const Chain mapped = range(2).then<MapRowsOperator>(
      RowFunction{.name = "square",
                  .writes = {{.name = "y", .dtype = DType::kInt64, .shape = {}}},
                  .function = [](const RowView& row,
                                 RowWriter& out) { out.set("y", row.value<int64_t>("x") * row.value<int64_t>(0)); },
                  .keep_others = false});
  EXPECT_THAT(mapped.elements(), ElementsAre("y=0", "y=1"));
}

TEST(MapTest, AThrowingFunctionIsAnErrorOfThatRowAndNamesTheFunction) {
  const Chain mapped =
      Chain::source<FaultyRange>(5, std::vector<int64_t>{0})
          .then<MapRowsOperator>(RowFunction{.name = "no threes",
                                             .writes = {{.name = "a", .dtype = DType::kInt64, .shape = {}},
                                                        {.name = "b", .dtype = DType::kInt64, .shape = {}}},
                                             .function = [](const RowView& row, RowWriter& out) {
                                               const auto x = row.value<int64_t>("x");
                                               out.set("a", x);
                                               if (x == 3) throw std::runtime_error("three");
                                               out.set("b", x);
                                             }});
  EXPECT_THAT(mapped.elements(), ElementsAre("error: parse: at 0", "x=1 a=1 b=1", "x=2 a=2 b=2",
                                             "error: user_function: map 'no threes': three", "x=4 a=4 b=4"));
}

std::string first_with(const Chain& input, std::function<void(const RowView&, RowWriter&)> function) {
  return input
      .then<MapRowsOperator>(RowFunction{.name = "f",
                                         .writes = {{.name = "y", .dtype = DType::kInt64, .shape = {2}}},
                                         .function = std::move(function)})
      .elements()[0];
}

TEST(MapTest, MistakesInAFunctionAreErrorsThatSayWhichFeature) {
  const std::vector<int64_t> two{1, 2};
  EXPECT_THAT(first_with(range(1), [](const RowView&, RowWriter&) {}),
              HasSubstr("map 'f': feature 'y' was not written"));
  EXPECT_THAT(first_with(range(1),
                         [&](const RowView&, RowWriter& out) {
                           out.set_values<int64_t>("y", two);
                           out.set_values<int64_t>("y", two);
                         }),
              HasSubstr("feature 'y' was written twice"));
  EXPECT_THAT(first_with(range(1), [](const RowView&, RowWriter& out) { out.set("y", int64_t{1}); }),
              HasSubstr("feature 'y' has shape [2], and was written with 1 values as []"));
  EXPECT_THAT(first_with(range(1), [](const RowView&, RowWriter& out) { out.set("y", 1.0F); }),
              HasSubstr("feature 'y' is int64, and was written as float32"));
  EXPECT_THAT(first_with(range(1), [](const RowView&, RowWriter& out) { out.set("z", 1.0F); }),
              HasSubstr("no feature 'z' here"));
  EXPECT_THAT(first_with(range(1), [](const RowView& row, RowWriter&) { (void)row.value<float>("x"); }),
              HasSubstr("feature 'x' is int64, and was read as float32"));
  EXPECT_THAT(first_with(tokens({{1, 2}}), [](const RowView& row, RowWriter&) { (void)row.value<int64_t>("tokens"); }),
              HasSubstr("feature 'tokens' has 2 values here, and was read as one"));
  EXPECT_THAT(first_with(range(1), [](const RowView& row, RowWriter&) { (void)row.shape(7); }),
              HasSubstr("no column 7 here"));
}

TEST(MapTest, ABlockFunctionGetsColumnsAndErrorsStayErrors) {
  const Chain input = Chain::source<FaultyRange>(4, std::vector<int64_t>{2});
  const auto schema =
      std::make_shared<const Schema>(std::vector<FeatureSpec>{{.name = "half", .dtype = DType::kFloat32, .shape = {}}});
  const Chain mapped = Chain::of(std::make_shared<MapBlocksOperator>(BlockFunction{
                                     .name = "halve",
                                     .schema = schema,
                                     .function =
                                         [schema](const Block& block, BufferPool& pool) {
                                           Column half = Column::like(pool, DType::kFloat32, block.column("x"));
                                           const auto from = block.column("x").values<int64_t>();
                                           const auto to = half.mutable_values<float>();
                                           for (size_t i = 0; i < from.size(); ++i)
                                             to[i] = static_cast<float>(from[i]) / 2;
                                           return Block(schema, {half}, block.num_elements());  // forgets the errors
                                         }}),
                                 {input});
  EXPECT_THAT(mapped.elements(), ElementsAre("half=0", "half=0.5", "error: parse: at 2", "half=1.5"));
}

TEST(MapTest, ABlockFunctionThatThrowsOrReturnsAnotherSchemaFailsEveryElement) {
  const auto run = [](std::function<Block(Block, BufferPool&)> function) {
    const Chain input = range(2);
    return Chain::of(std::make_shared<MapBlocksOperator>(
                         BlockFunction{.name = "g", .schema = input.schema(), .function = std::move(function)}),
                     {input})
        .elements();
  };
  EXPECT_THAT(run([](const Block&, BufferPool&) -> Block { throw 3; }),
              ElementsAre(HasSubstr("map 'g': threw something"), HasSubstr("map 'g'")));
  EXPECT_THAT(run([](const Block& block, BufferPool&) { return block.slice(0, 0); }),
              ElementsAre(HasSubstr("returned another number of elements"), HasSubstr("map 'g'")));
  EXPECT_THAT(run([](const Block& block, BufferPool& pool) {
                return block.with_columns(block.schema(),
                                          {Column::fixed(pool, DType::kInt32, {}, block.num_elements())});
              }),
              ElementsAre(HasSubstr("returned int32 of rank 0 as feature 'x', which is int64"), HasSubstr("returned")));
}

TEST(MapTest, ABlockFunctionGivesTheShapesOfItsSchemaOrErrors) {
  const Chain input = Chain::source<FaultyRange>(4, std::vector<int64_t>{2});
  // The elements of a function that returns this column as `y`.
  const auto returning = [&](const Shape& shape, std::function<Column(BufferPool&, const Block&)> column) {
    const auto schema = std::make_shared<const Schema>(
        std::vector<FeatureSpec>{{.name = "y", .dtype = DType::kFloat32, .shape = shape}});
    return Chain::of(
        std::make_shared<MapBlocksOperator>(BlockFunction{.name = "g",
                                                          .schema = schema,
                                                          .function =
                                                              [=](const Block& block, BufferPool& pool) {
                                                                Column y = column(pool, block);
                                                                for (float& value : y.mutable_values<float>())
                                                                  value = 1;
                                                                return block.with_columns(schema, {y});
                                                              }}),
        {input});
  };
  const auto fixed = [](const Shape& shape) {
    return [=](BufferPool& pool, const Block& block) {
      return Column::fixed(pool, DType::kFloat32, shape, block.num_elements());
    };
  };
  // x rows of these sizes.
  const auto growing = [](const Shape& row) {
    return [=](BufferPool& pool, const Block& block) {
      std::vector<int64_t> offsets{0};
      std::vector<int64_t> sizes;
      for (size_t e = 0; e < block.num_elements(); ++e) {
        const int64_t rows = block.error_at(e) == nullptr ? block.column("x").values<int64_t>(e)[0] : 0;
        offsets.push_back(offsets.back() + rows * num_values(row));
        sizes.push_back(rows);
        sizes.insert(sizes.end(), row.begin(), row.end());
      }
      return Column::varying(pool, DType::kFloat32, static_cast<int>(row.size()) + 1, offsets, sizes);
    };
  };
  const std::string wrong = "error: wrong_shape: map 'g': returned [2] as feature 'y', which is [4]";
  EXPECT_THAT(returning({4}, fixed({2})).elements(), ElementsAre(wrong, wrong, "error: parse: at 2", wrong));
  EXPECT_THAT(returning({kVaries}, fixed({2})).elements(),
              ElementsAre("y=[1,1]", "y=[1,1]", "error: parse: at 2", "y=[1,1]"));
  EXPECT_THAT(returning({kVaries, 2}, fixed({2, 3})).elements(),
              ElementsAre(HasSubstr("wrong_shape"), HasSubstr("wrong_shape"), "error: parse: at 2",
                          HasSubstr("returned [2,3] as feature 'y', which is [?,2]")));

  // The elements that are as they should be come through, in a column as it should be.
  EXPECT_THAT(returning({3}, growing({})).elements(),
              ElementsAre(HasSubstr("returned [0]"), HasSubstr("returned [1]"), "error: parse: at 2", "y=[1,1,1]"));
  EXPECT_THAT(returning({3, 2}, growing({2})).elements(),
              ElementsAre(HasSubstr("returned [0,2]"), HasSubstr("returned [1,2]"), "error: parse: at 2",
                          "y=[[1,1],[1,1],[1,1]]"));

  EXPECT_THAT(returning({4},
                        [](BufferPool& pool, const Block& block) {
                          return Column::fixed(pool, DType::kFloat32, {4}, block.num_elements() + 1);
                        })
                  .elements(),
              ElementsAre(HasSubstr("user_function: map 'g': returned another number of elements as feature 'y'"),
                          HasSubstr("user_function"), "error: parse: at 2", HasSubstr("user_function")));
  EXPECT_THAT(returning({4, kRagged}, fixed({4, 2})).elements()[0],
              HasSubstr("returned what is not ragged as feature 'y', which is float32 [4,ragged]"));
}

TEST(FilterTest, KeepsWhatThePredicateSaysAndEveryError) {
  const Chain input = Chain::source<FaultyRange>(8, std::vector<int64_t>{1, 4});
  const auto odd = [](const RowView& row) {
    if (row.value<int64_t>("x") == 6) throw std::runtime_error("six");
    return row.value<int64_t>("x") % 2 == 1;
  };
  EXPECT_THAT(input.then<FilterOperator>(RowPredicate{"odd", odd}).elements(),
              ElementsAre("error: parse: at 1", "x=3", "error: parse: at 4", "x=5",
                          "error: user_function: filter 'odd': six", "x=7"));
  const auto large = [](const Block& block, std::span<uint8_t> keep) {
    const auto values = block.column("x").values<int64_t>();
    for (size_t i = 0; i < keep.size(); ++i) keep[i] = values[i] > 5 ? 1 : 0;
  };
  EXPECT_THAT(input.then<FilterOperator>(BlockPredicate{"large", large}).elements(),
              ElementsAre("error: parse: at 1", "error: parse: at 4", "x=6", "x=7"));
  EXPECT_EQ(range(4).then<FilterOperator>(RowPredicate{"odd", odd}).cardinality(), Cardinality::unknown());
}

TEST(ArithmeticTest, CalculatesOnEveryNumberWithTheFlooredModulo) {
  const Chain batch = tokens({{-4, 5}, {2, INT64_MIN}}).then<BatchOperator>(2);
  EXPECT_THAT(batch.then<ArithmeticOperator>("tokens", Arithmetic::kModulo, int64_t{3}).elements(),
              ElementsAre("tokens=[[2,2],[2,1]]"));
  EXPECT_THAT(batch.then<ArithmeticOperator>("tokens", Arithmetic::kModulo, int64_t{-3}).elements(),
              ElementsAre("tokens=[[-1,-1],[-1,-2]]"));
  EXPECT_THAT(batch.then<ArithmeticOperator>("tokens", Arithmetic::kModulo, int64_t{-1}).elements(),
              ElementsAre("tokens=[[0,0],[0,0]]"));
  EXPECT_THAT(batch.then<ArithmeticOperator>("tokens", Arithmetic::kMultiply, int64_t{-2}).elements(),
              ElementsAre("tokens=[[8,-10],[-4,0]]"));
  EXPECT_THAT(
      range(2).then<CastOperator>("x", DType::kFloat32).then<ArithmeticOperator>("x", Arithmetic::kAdd, 0.5).elements(),
      ElementsAre("x=0.5", "x=1.5"));
  // Of floats too, exactly, and within [0, k): `1e9 % 7.0` is 6, `-1e-9 % 7.0` 0.
  const Chain floats = Chain::source<RowsOperator>(
      std::vector<MemoryFeature>{{"x", std::vector<float>{1e9F, -1e-9F, -1e9F, 6.5F, -0.5F, 7, -7, 3e38F}}});
  EXPECT_THAT(floats.then<ArithmeticOperator>("x", Arithmetic::kModulo, int64_t{7}).elements(),
              ElementsAre("x=6", "x=0", "x=1", "x=6.5", "x=6.5", "x=0", "x=0", "x=1"));
  EXPECT_THAT(floats.then<ArithmeticOperator>("x", Arithmetic::kModulo, int64_t{-7}).elements(),
              ElementsAre("x=-1", testing::AnyOf("x=-1e-09", "x=-9.999999717180685e-10"), "x=-6", "x=-0.5", "x=-0.5",
                          "x=-0", "x=-0", "x=-6"));
  EXPECT_THROW(range(1).then<ArithmeticOperator>("x", Arithmetic::kModulo, int64_t{0}), ErrorException);
  EXPECT_THROW(range(1).then<ArithmeticOperator>("x", Arithmetic::kAdd, 0.5), ErrorException);
  EXPECT_THROW(range(1).then<ArithmeticOperator>("y", Arithmetic::kAdd, int64_t{1}), ErrorException);
}

TEST(CastTest, ANumberThatDoesNotFitIsAnErrorOfItsElement) {
  EXPECT_THAT(
      tokens({{1, -2}, {3, int64_t{1} << 31}, {-(int64_t{1} << 31)}})
          .then<CastOperator>("tokens", DType::kInt32)
          .elements(),
      ElementsAre(
          "tokens=[1,-2]",
          HasSubstr("error: out_of_range: cast: feature 'tokens' has the value 2147483648, which int32 cannot hold"),
          "tokens=[-2147483648]"));
  const Chain floats = Chain::source<RowsOperator>(
      std::vector<MemoryFeature>{{"f", std::vector<float>{-1.75F, 3e9F, std::numeric_limits<float>::quiet_NaN()}}});
  EXPECT_THAT(floats.then<CastOperator>("f", DType::kInt32).elements(),
              ElementsAre("f=-1", HasSubstr("3000000000, which int32"), HasSubstr("nan, which int32")));
  EXPECT_THAT(floats.then<CastOperator>("f", DType::kInt64).elements(),
              ElementsAre("f=-1", "f=3000000000", HasSubstr("nan, which int64")));
}

}  // namespace
}  // namespace millrace::map_filter_test

#include "millrace/ops/features/one_hot.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/columnar/column_builder.h"
#include "millrace/ops/sources/range.h"
#include "millrace/ops/sources/rows.h"
#include "millrace/pipeline/dataset.h"
#include "tests/ops/file_source_cases.h"
#include "tests/support/operator_chain.h"

namespace millrace::one_hot_test {
namespace {

using test::Chain;
using test::FaultyRange;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Chain rows() {
  return Chain::source<RowsOperator>(std::vector<MemoryFeature>{
      {"i", std::vector<int64_t>{1, -1, 3}}, {"v", std::vector<std::vector<int32_t>>{{2, 0}, {}, {7}}}});
}

TEST(OneHot, PutsAVectorInThePlaceOfEachIndex) {
  EXPECT_THAT(rows().then<OneHotOperator>("i", int64_t{3}).elements(),
              ElementsAre("i=[0,1,0] v=[2,0]", "i=[0,0,0] v=[]", "i=[0,0,0] v=[7]"));
  EXPECT_THAT(rows().then<OneHotOperator>("v", int64_t{3}).elements(),
              ElementsAre("i=1 v=[[0,0,1],[1,0,0]]", "i=-1 v=[]", "i=3 v=[[0,0,0]]"));
  const Chain batches = rows().then<OneHotOperator>("i", int64_t{2});
  EXPECT_EQ((*batches.schema())[0].shape, (Shape{2}));
  EXPECT_THAT(batches.elements()[0], HasSubstr("i=[0,1]"));
}

TEST(OneHot, ErrorsPass) {
  EXPECT_THAT(Chain::source<FaultyRange>(3, std::vector<int64_t>{1}).then<OneHotOperator>("x", int64_t{2}).elements(),
              ElementsAre("x=[1,0]", HasSubstr("at 1"), "x=[0,0]"));
  EXPECT_THAT(Chain::source<RangeOperator>(0, 0, 1, "x").then<OneHotOperator>("x", int64_t{2}).elements(),
              ElementsAre());
}

TEST(OneHot, GivesWhatTensorFlowGives) {
  for (const nlohmann::json& one : test::operator_cases("one_hot.jsonl")) {
    SCOPED_TRACE(one.dump());
    const nlohmann::json& indices = one.at("indices");
    const std::string dtype = one.at("dtype");
    OneHotOptions options;
    options.dtype = dtype == "float32" ? DType::kFloat32 : dtype == "int64" ? DType::kInt64 : DType::kInt32;
    const auto number = [](const nlohmann::json& value) -> std::variant<int64_t, double> {
      if (value.is_number_integer()) return value.get<int64_t>();
      return value.get<double>();
    };
    options.on_value = number(one.at("on_value"));
    options.off_value = number(one.at("off_value"));
    // A scalar, a vector, or a matrix as the batch of its rows.
    const bool is_matrix = indices.is_array() && !indices.empty() && indices[0].is_array();
    const auto dataset = [&]() -> Dataset {
      if (indices.is_number()) return Dataset::rows({{"x", std::vector<int64_t>{indices.get<int64_t>()}}});
      if (!is_matrix) {
        return Dataset::rows({{"x", std::vector<std::vector<int64_t>>{indices.get<std::vector<int64_t>>()}}});
      }
      return Dataset::rows({{"x", indices.get<std::vector<std::vector<int64_t>>>()}})
          .batch(static_cast<int64_t>(indices.size()));
    }();
    Pipeline pipeline = dataset.one_hot("x", one.at("depth"), options).start({.threads = 1});
    const std::optional<Batch> batch = pipeline.next();
    ASSERT_TRUE(batch);
    EXPECT_EQ(batch->shape("x"), one.at("shape").get<Shape>());
    const auto expect_values = [&]<typename T>(T) {
      const std::span<const T> found = batch->values<T>("x");
      EXPECT_EQ(std::vector<T>(found.begin(), found.end()), one.at("values").get<std::vector<T>>());
    };
    switch (options.dtype) {
      case DType::kFloat32: expect_values(0.0F); break;
      case DType::kInt64: expect_values(int64_t{0}); break;
      default: expect_values(int32_t{0}); break;
    }
  }
}

TEST(OneHot, AnElementOfTooManyValuesIsAnErrorInItsPlace) {
  BufferPool pool;
  const auto schema_of = [](Shape shape) {
    return std::make_shared<const Schema>(
        std::vector<FeatureSpec>{{.name = "i", .dtype = DType::kInt64, .shape = std::move(shape)}});
  };
  const SchemaPtr schema = schema_of({kVaries});
  ColumnBuilder builder(pool, (*schema)[0]);
  const std::vector<int64_t> indices(513, 1);
  builder.append<int64_t>(indices, Shape{513});
  builder.append<int64_t>({}, Shape{0});
  const Block block(schema, {builder.finish()}, 2);
  const Block made = OneHotOperator(schema, "i", INT32_MAX).apply(block, pool);
  ASSERT_NE(made.error_at(0), nullptr);
  EXPECT_EQ(made.error_at(0)->code, ErrorCode::kWrongShape);
  EXPECT_THAT(made.error_at(0)->message, HasSubstr("'i' has 513 indices, of 2147483647 values each"));
  EXPECT_EQ(made.error_at(1), nullptr);
  EXPECT_THROW(OneHotOperator(schema_of({27, 19}), "i", INT32_MAX), ErrorException);
  EXPECT_NO_THROW(OneHotOperator(schema_of({16, 32}), "i", INT32_MAX));
}

TEST(OneHot, RefusesWhatCannotWork) {
  const auto refusal = [](const std::string& feature, int64_t depth, const OneHotOptions& options) {
    try {
      (void)rows().then<OneHotOperator>(feature, depth, options);
    } catch (const ErrorException& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(refusal("i", -1, {}), HasSubstr("depth is -1, must be from 0"));
  EXPECT_THAT(refusal("i", int64_t{1} << 31, {}), HasSubstr("depth is 2147483648"));
  EXPECT_THAT(refusal("i", 2, {.dtype = DType::kBytes}), HasSubstr("dtype is bytes"));
  EXPECT_THAT(refusal("i", 2, {.dtype = DType::kInt64, .on_value = 0.5}), HasSubstr("on_value is 0.5, which int64"));
  EXPECT_THAT(refusal("i", 2, {.dtype = DType::kInt32, .off_value = int64_t{1} << 40}),
              HasSubstr("off_value is 1099511627776, which int32 cannot hold"));
  EXPECT_THAT(refusal("i", 2, {.on_value = 1e300}), HasSubstr("on_value is 1e+300, which float32 cannot hold"));
  EXPECT_THAT(refusal("i", 2, {.off_value = -3.5e38}), HasSubstr("off_value is -3.5e+38, which float32 cannot hold"));
  EXPECT_EQ(refusal("i", 2, {.on_value = 3.4e38, .off_value = -std::numeric_limits<double>::infinity()}), "no error");
  EXPECT_THAT(refusal("none", 2, {}), HasSubstr("none"));
  const Chain bytes = Chain::source<RowsOperator>(std::vector<MemoryFeature>{{"b", std::vector<std::string>{"b"}}});
  EXPECT_THROW((void)bytes.then<OneHotOperator>("b", int64_t{2}), ErrorException);
}

}  // namespace
}  // namespace millrace::one_hot_test

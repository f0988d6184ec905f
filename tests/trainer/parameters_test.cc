#include "millrace/trainer/parameters.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "millrace/formats/error.h"

namespace millrace::parameters_test {
namespace {

TEST(ParameterLayout, LiesInReverseOrderOnCacheLines) {
  ParameterLayout layout;
  EXPECT_EQ(layout.add("first", {3, 5}), 0);
  EXPECT_EQ(layout.add("second", {}), 1);
  EXPECT_EQ(layout.add("third", {17}), 2);
  layout.finish();
  const auto parameters = layout.parameters();
  EXPECT_EQ(parameters[2].offset, 0);
  EXPECT_EQ(parameters[1].offset, 32);
  EXPECT_EQ(parameters[0].offset, 48);
  EXPECT_EQ(layout.size(), 64);
  EXPECT_EQ(layout.num_elements(), 33);
  EXPECT_EQ(layout.find("second"), 1);
  EXPECT_EQ(layout.find("fourth"), std::nullopt);
}

TEST(ParameterLayout, BucketsCoverTheBufferOnceAndSplitLargeParameters) {
  ParameterLayout layout;
  layout.add("embedding", {100});
  layout.add("a", {16});
  layout.add("b", {20});
  layout.add("c", {16});
  layout.finish(48 * sizeof(float));
  // c and b fit together (16 + 32); a opens the next bucket; the embedding (112 with its gap) does not fit after it.
  ASSERT_EQ(layout.buckets().size(), 5u);
  int64_t end = 0;
  for (const Bucket& bucket : layout.buckets()) {
    EXPECT_EQ(bucket.begin, end);
    EXPECT_LE(bucket.end - bucket.begin, 48);
    end = bucket.end;
  }
  EXPECT_EQ(end, layout.size());
  EXPECT_EQ(layout.buckets()[0].parameters, (std::vector<int>{3, 2}));
  EXPECT_EQ(layout.buckets()[1].parameters, (std::vector<int>{1}));
  EXPECT_EQ(layout.buckets()[2].parameters, (std::vector<int>{0}));
  EXPECT_EQ(layout.buckets()[4].parameters, (std::vector<int>{0}));
}

TEST(ParameterLayout, RefusesADuplicateNameABadShapeAndALateParameter) {
  ParameterLayout layout;
  layout.add("w", {2});
  EXPECT_THROW(layout.add("w", {3}), ErrorException);
  EXPECT_THROW(layout.add("", {3}), ErrorException);
  EXPECT_THROW(layout.add("x", {3, 0}), ErrorException);
  EXPECT_THROW(layout.finish(60), ErrorException);
  layout.finish();
  EXPECT_THROW(layout.add("late", {3}), ErrorException);
}

TEST(ParameterLayout, RefusesWhatIsTooLargeForAModelByName) {
  constexpr int64_t kMost = int64_t{1} << 37U;
  const auto message_of = [](ParameterLayout& layout, std::vector<int64_t> shape) -> std::string {
    try {
      layout.add("large", std::move(shape));
    } catch (const ErrorException& error) {
      EXPECT_EQ(error.error().code, ErrorCode::kInvalidArgument);
      return error.error().message;
    }
    return "no error";
  };
  ParameterLayout layout;
  EXPECT_EQ(message_of(layout, {int64_t{1} << 32U, int64_t{1} << 32U}),
            "parameter 'large' [4294967296,4294967296] would make a model of more than 137438953472 floats");
  EXPECT_NE(message_of(layout, {std::numeric_limits<int64_t>::max()}), "no error");
  EXPECT_NE(message_of(layout, {int64_t{1} << 62U, 4, 1}), "no error");
  EXPECT_NE(message_of(layout, {kMost + 1}), "no error");
  // All together, gaps included.
  layout.add("most", {kMost / 2, 1});
  layout.add("one", {1});
  EXPECT_NE(message_of(layout, {kMost / 2 - 15}), "no error");
  EXPECT_NE(message_of(layout, {kMost / 2}), "no error");
  EXPECT_EQ(message_of(layout, {kMost / 2 - 16}), "no error");
  EXPECT_NE(message_of(layout, {}), "no error");
  layout.finish();
  EXPECT_EQ(layout.size(), kMost);
}

TEST(FlatBuffer, IsZeroAndAligned) {
  FlatBuffer buffer(33);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
  for (float value : buffer.span()) EXPECT_EQ(value, 0.0f);
}

}  // namespace
}  // namespace millrace::parameters_test

#include "millrace/ops/images/normalize.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/ops/batch/batch.h"
#include "millrace/ops/features/map.h"
#include "millrace/ops/sources/range.h"
#include "tests/support/image_blocks.h"
#include "tests/support/operator_chain.h"

namespace millrace::normalize_test {
namespace {

using test::Chain;
using test::counted_image;
using test::FaultyRange;
using test::image_block;
using test::print_element;
using test::TestImage;
using test::values_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kAny = kVaries;

// As numpy in double; of batches row by row.
std::vector<double> slowly_normalized(const TestImage& image, const NormalizeOptions& options) {
  const auto channels = static_cast<size_t>(image.shape.back());
  const size_t rank = image.shape.size();
  const auto pixels = static_cast<size_t>(image.shape[rank - 3] * image.shape[rank - 2]);
  std::vector<double> normalized(image.values.size());
  for (size_t i = 0; i < image.values.size(); ++i) {
    const size_t c = i % channels;
    const size_t row = i / (pixels * channels);
    const size_t pixel = i / channels % pixels;
    const double value = (image.values[i] - options.mean[c % options.mean.size()]) /
                         options.standard_deviation[c % options.standard_deviation.size()];
    normalized[options.channels_first ? (row * channels + c) * pixels + pixel : i] = value;
  }
  return normalized;
}

TEST(Normalize, SubtractsTheMeanAndDividesByTheStandardDeviation) {
  BufferPool pool;
  const std::vector<double> means{0.5, 100, -3, 7, 1.0 / 3};
  const std::vector<double> deviations{2, 0.25, 30, 1, 0.1};
  for (const DType dtype : {DType::kUint8, DType::kInt32, DType::kFloat32}) {
    for (const bool channels_first : {false, true}) {
      for (const Shape& shape : {Shape{1, 1, 1}, Shape{5, 7, 3}, Shape{2, 3, 5}, Shape{3, 4, 5, 3}, Shape{40, 9, 2}}) {
        for (const bool one : {false, true}) {
          const auto channels = static_cast<std::ptrdiff_t>(shape.back());
          const NormalizeOptions options{
              .mean = {means.begin(), means.begin() + channels},
              .standard_deviation = {deviations.begin(), deviations.begin() + (one ? 1 : channels)},
              .channels_first = channels_first};
          const TestImage image = counted_image(shape);
          for (const Shape& declared : {shape, Shape(shape.size(), kAny)}) {
            const Block block = image_block(pool, dtype, declared, {image, image});
            const NormalizeOperator normalize(block.schema(), options);
            const Block normalized = normalize.apply(block, pool);
            const std::vector<double> expected = slowly_normalized(image, options);
            for (size_t element = 0; element < 2; ++element) {
              const std::vector<double> values = values_of(normalized, element);
              ASSERT_EQ(values.size(), expected.size());
              for (size_t i = 0; i < values.size(); ++i) {
                ASSERT_NEAR(values[i], expected[i], 1e-6 * std::max(1.0, std::abs(expected[i])))
                    << to_string(shape) << i;
              }
            }
            Shape result = shape;
            if (channels_first) {
              const size_t rank = shape.size();
              result[rank - 3] = shape[rank - 1];
              result[rank - 2] = shape[rank - 3];
              result[rank - 1] = shape[rank - 2];
            }
            EXPECT_EQ(normalized.column(0).shape(1), result);
            EXPECT_EQ(normalized.column(0).dtype(), DType::kFloat32);
            if (declared == shape) {
              EXPECT_EQ((*normalize.schema())[0].shape, result);
            }
            EXPECT_EQ(values_of(block, 0), image.values) << "the input is shared and must stay";
          }
        }
      }
    }
  }
}

TEST(Normalize, WritesAgainWhatNobodyElseHas) {
  BufferPool pool;
  for (const Shape& declared : {Shape{4, 5, 3}, Shape{kAny, kAny, 3}}) {
    for (const bool channels_first : {false, true}) {
      const NormalizeOptions options{.mean = {1}, .standard_deviation = {2}, .channels_first = channels_first};
      const TestImage image = counted_image({4, 5, 3});
      Block block = image_block(pool, DType::kFloat32, declared, {image});
      const NormalizeOperator normalize(block.schema(), options);
      const std::byte* before = block.column(0).data(0);
      const Block shared = block;
      const Block copied = normalize.apply(block, pool);
      EXPECT_NE(copied.column(0).data(0), before);
      EXPECT_EQ(values_of(shared, 0), image.values);
      block = image_block(pool, DType::kFloat32, declared, {image});
      before = block.column(0).data(0);
      const Block same = normalize.apply(std::move(block), pool);
      EXPECT_EQ(same.column(0).data(0) == before, !channels_first);
      EXPECT_EQ(values_of(same, 0), values_of(copied, 0));
    }
  }
}

Chain images_of(const Chain& input, const Shape& declared, const Shape& shape) {
  return input.then<MapRowsOperator>(
      RowFunction{.name = "image",
                  .writes = {{.name = "image", .dtype = DType::kFloat32, .shape = declared}},
                  .function =
                      [shape](const RowView&, RowWriter& out) {
                        for (float& pixel : out.make<float>("image", shape)) pixel = 5;
                      },
                  .keep_others = false});
}

TEST(Normalize, ErrorsPassAndOtherChannelsAreErrors) {
  const NormalizeOptions options{.mean = {1, 3}, .standard_deviation = {2}};
  const Chain faulty = Chain::source<FaultyRange>(3, std::vector<int64_t>{1});
  EXPECT_THAT(images_of(faulty, {1, 1, 2}, {1, 1, 2}).then<NormalizeOperator>(options).elements(),
              ElementsAre("image=[[[2,1]]]", "error: parse: at 1", "image=[[[2,1]]]"));
  EXPECT_THAT(images_of(faulty, {kAny, kAny, kAny}, {1, 1, 2}).then<NormalizeOperator>(options).elements(),
              ElementsAre("image=[[[2,1]]]", "error: parse: at 1", "image=[[[2,1]]]"));
  const Chain one = Chain::source<RangeOperator>(0, 1, 1, "x");
  EXPECT_THAT(images_of(one, {1, 1, kAny}, {1, 1, 3}).then<NormalizeOperator>(options).elements(),
              ElementsAre("error: wrong_shape: normalize: 'image' has shape [1,1,3], and there are numbers of 2 "
                          "channels"));
  const NormalizeOptions any{.mean = {1}, .standard_deviation = {2}, .channels_first = true};
  EXPECT_THAT(images_of(one, {1, 1, kAny}, {1, 1, 3}).then<NormalizeOperator>(any).elements(),
              ElementsAre("image=[[[2]],[[2]],[[2]]]"));
  EXPECT_THAT(images_of(one, {kAny, kAny, kAny}, {0, 2, 1}).then<NormalizeOperator>(any).elements(),
              ElementsAre("image=[[]]"));
  EXPECT_THAT(images_of(one, {kAny, kAny, kAny}, {2, 1, 0}).then<NormalizeOperator>(any).elements(),
              ElementsAre("image=[]"));
  EXPECT_THAT(images_of(Chain::source<RangeOperator>(0, 0, 1, "x"), {1, 2, 1}, {1, 2, 1})
                  .then<NormalizeOperator>(any)
                  .elements(),
              IsEmpty());
  const Chain batches = images_of(Chain::source<RangeOperator>(0, 2, 1, "x").then<BatchOperator>(2, BatchOptions{}),
                                  {2, 2, 2}, {2, 2, 2});
  EXPECT_THAT(batches.then<NormalizeOperator>(options).elements()[0],
              HasSubstr("'image' has shape [2,2,2], and batches are [rows,height,width,channels]"));
}

TEST(Normalize, BadOptionsAreRefused) {
  const auto why = [](const NormalizeOptions& options, DType dtype = DType::kUint8,
                      const Shape& shape = {kAny, kAny, 3}) -> std::string {
    try {
      const NormalizeOperator made(std::make_shared<const Schema>(std::vector<FeatureSpec>{{"image", dtype, shape}}),
                                   options);
    } catch (const ErrorException& error) {
      EXPECT_EQ(error.error().code, ErrorCode::kInvalidArgument);
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(why({.mean = {0}, .standard_deviation = {1, 2, 3}}), "accepted");
  EXPECT_THAT(why({.standard_deviation = {1}}), HasSubstr("normalize: give mean and standard_deviation"));
  EXPECT_THAT(why({.mean = {1}}), HasSubstr("give mean and standard_deviation"));
  EXPECT_THAT(why({.mean = {1, 2}, .standard_deviation = {1, 2, 3}}),
              HasSubstr("mean is of 2 channels and standard_deviation of 3"));
  EXPECT_THAT(why({.mean = {1, 2}, .standard_deviation = {1}}), HasSubstr("there are numbers of 2 channels"));
  EXPECT_EQ(why({.mean = {1, 2}, .standard_deviation = {1}}, DType::kUint8, {1, 1, kAny}), "accepted");
  EXPECT_THAT(why({.mean = {NAN}, .standard_deviation = {1}}), HasSubstr("mean is nan"));
  EXPECT_THAT(why({.mean = {1e300}, .standard_deviation = {1}}), HasSubstr("mean is 1e+300"));
  EXPECT_THAT(why({.mean = {0}, .standard_deviation = {0}}), HasSubstr("standard_deviation is 0, must be above 0"));
  EXPECT_THAT(why({.mean = {0}, .standard_deviation = {-1}}), HasSubstr("standard_deviation is -1"));
  EXPECT_THAT(why({.mean = {0}, .standard_deviation = {1e-300}}), HasSubstr("standard_deviation is 1e-300"));
  EXPECT_THAT(why({.mean = {0}, .standard_deviation = {1}}, DType::kInt64), HasSubstr("'image' is int64 [?,?,3]"));
  EXPECT_THAT(why({.mean = {0}, .standard_deviation = {1}}, DType::kUint8, {3, 3}),
              HasSubstr("'image' is uint8 [3,3]"));
}

}  // namespace
}  // namespace millrace::normalize_test

#include "millrace/ops/images/pad.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/ops/batch/batch.h"
#include "millrace/ops/features/map.h"
#include "millrace/ops/sources/range.h"
#include "tests/support/image_blocks.h"
#include "tests/support/operator_chain.h"

namespace millrace::pad_test {
namespace {

using test::Chain;
using test::counted_image;
using test::FaultyRange;
using test::image_block;
using test::print_element;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kAny = kVaries;

std::string padded(DType dtype, const Shape& shape, const PadOptions& options) {
  BufferPool pool;
  std::string text;
  for (const Shape& declared : {shape, Shape(shape.size(), kAny)}) {
    const Block block = image_block(pool, dtype, declared, {counted_image(shape)});
    const PadOperator pad(block.schema(), options);
    const Block result = pad.apply(block, pool);
    EXPECT_EQ(result.column(0).dtype(), dtype);
    EXPECT_TRUE(text.empty() || text == print_element(result, 0));
    text = print_element(result, 0);
  }
  return text;
}

// tf.image.resize_with_crop_or_pad(tf.reshape(tf.range(2), [1, 2, 1]), 2, 5) and the like.
TEST(Pad, ImagesStandInTheCentreOrAtTheTopLeft) {
  for (const DType dtype : {DType::kUint8, DType::kInt32, DType::kFloat32}) {
    EXPECT_EQ(padded(dtype, {1, 2, 1}, {.height = 2, .width = 5}),
              "image=[[[0],[0],[1],[0],[0]],[[0],[0],[0],[0],[0]]]");
    EXPECT_EQ(padded(dtype, {1, 2, 1}, {.height = 2, .width = 5, .value = 9, .kind = PadKind::kTopLeft}),
              "image=[[[0],[1],[9],[9],[9]],[[9],[9],[9],[9],[9]]]");
    EXPECT_EQ(padded(dtype, {2, 1, 2}, {.height = 5, .width = 2, .value = 9}),
              "image=[[[9,9],[9,9]],[[0,1],[9,9]],[[2,3],[9,9]],[[9,9],[9,9]],[[9,9],[9,9]]]");
    EXPECT_EQ(padded(dtype, {2, 2, 1}, {.height = 2, .width = 2, .value = 9}), "image=[[[0],[1]],[[2],[3]]]");
  }
  EXPECT_EQ(padded(DType::kFloat32, {1, 1, 1}, {.height = 1, .width = 2, .value = -0.5}), "image=[[[0],[-0.5]]]");
}

TEST(Pad, BatchesArePaddedAsTheirRowsAndEmptyImagesAreAllPadding) {
  EXPECT_EQ(padded(DType::kUint8, {2, 1, 1, 1}, {.height = 1, .width = 3, .value = 9}),
            "image=[[[[9],[0],[9]]],[[[9],[1],[9]]]]");
  EXPECT_EQ(padded(DType::kUint8, {0, 2, 1}, {.height = 1, .width = 2, .value = 9, .kind = PadKind::kTopLeft}),
            "image=[[[9],[9]]]");
  EXPECT_EQ(padded(DType::kUint8, {1, 0, 2}, {.height = 1, .width = 2, .value = 9}), "image=[[[9,9],[9,9]]]");
  EXPECT_EQ(padded(DType::kUint8, {1, 1, 0}, {.height = 1, .width = 2, .value = 9}), "image=[[[],[]]]");
  EXPECT_EQ(padded(DType::kUint8, {0, 1, 1, 1}, {.height = 1, .width = 2, .value = 9}), "image=[]");
}

Chain images_of(const Chain& input, const Shape& declared, const Shape& shape) {
  return input.then<MapRowsOperator>(
      RowFunction{.name = "image",
                  .writes = {{.name = "image", .dtype = DType::kInt32, .shape = declared}},
                  .function =
                      [shape](const RowView&, RowWriter& out) {
                        for (int32_t& pixel : out.make<int32_t>("image", shape)) pixel = 3;
                      },
                  .keep_others = false});
}

TEST(Pad, ErrorsPassAndLargerImagesAreErrors) {
  const PadOptions options{.height = 1, .width = 2};
  const Chain faulty = Chain::source<FaultyRange>(3, std::vector<int64_t>{1});
  EXPECT_THAT(images_of(faulty, {1, 1, 1}, {1, 1, 1}).then<PadOperator>(options).elements(),
              ElementsAre("image=[[[3],[0]]]", "error: parse: at 1", "image=[[[3],[0]]]"));
  EXPECT_THAT(images_of(faulty, {1, 1, kAny}, {1, 1, 1}).then<PadOperator>(options).elements(),
              ElementsAre("image=[[[3],[0]]]", "error: parse: at 1", "image=[[[3],[0]]]"));
  for (const Shape& shape : {Shape{2, 1, 1}, Shape{1, 3, 1}}) {
    EXPECT_THAT(images_of(faulty, {kAny, kAny, 1}, shape).then<PadOperator>(options).elements()[0],
                "error: wrong_shape: pad: 'image' has shape " + to_string(shape) +
                    ", and is larger than the 1 x 2 pixels that it is padded to");
  }
  EXPECT_THAT(
      images_of(Chain::source<RangeOperator>(0, 0, 1, "x"), {1, 2, 1}, {1, 2, 1}).then<PadOperator>(options).elements(),
      IsEmpty());
  const Chain batches = images_of(Chain::source<RangeOperator>(0, 2, 1, "x").then<BatchOperator>(2, BatchOptions{}),
                                  {2, 2, 2}, {2, 2, 2});
  EXPECT_THAT(batches.then<PadOperator>(PadOptions{.height = 2, .width = 2}).elements()[0],
              HasSubstr("'image' has shape [2,2,2], and batches are [rows,height,width,channels]"));
}

TEST(Pad, BadOptionsAreRefused) {
  const auto why = [](const PadOptions& options, DType dtype = DType::kUint8,
                      const Shape& shape = {kAny, kAny, 3}) -> std::string {
    try {
      const PadOperator made(std::make_shared<const Schema>(std::vector<FeatureSpec>{{"image", dtype, shape}}),
                             options);
    } catch (const ErrorException& error) {
      EXPECT_EQ(error.error().code, ErrorCode::kInvalidArgument);
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(why({.height = 3, .width = 3, .value = 255}), "accepted");
  EXPECT_EQ(why({.height = 3, .width = 3, .value = -1.0 / 3}, DType::kFloat32), "accepted");
  EXPECT_EQ(why({.height = 3, .width = 3, .value = NAN}, DType::kFloat32), "accepted");
  EXPECT_THAT(why({.height = 0, .width = 3}), HasSubstr("pad: height is 0, must be from 1 to 65536"));
  EXPECT_THAT(why({.height = 3, .width = 65537}), HasSubstr("width is 65537"));
  EXPECT_THAT(why({.height = 3, .width = 3, .value = 256}),
              HasSubstr("value is 256, which uint8 of 'image' cannot hold"));
  EXPECT_THAT(why({.height = 3, .width = 3, .value = 0.5}), HasSubstr("value is 0.5"));
  EXPECT_THAT(why({.height = 3, .width = 3, .value = NAN}), HasSubstr("value is nan"));
  EXPECT_THAT(why({.height = 3, .width = 3, .value = 1e300}, DType::kFloat32), HasSubstr("value is 1e+300"));
  EXPECT_THAT(why({.height = 3, .width = 3}, DType::kInt64), HasSubstr("'image' is int64 [?,?,3]"));
  EXPECT_THAT(why({.height = 3, .width = 3}, DType::kUint8, {4, kAny, 3}),
              HasSubstr("feature 'image' has shape [4,?,3], and is larger than the 3 x 3 pixels"));
}

}  // namespace
}  // namespace millrace::pad_test

#include "millrace/ops/images/crop.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/random/counter_rng.h"
#include "millrace/ops/batch/batch.h"
#include "millrace/ops/features/map.h"
#include "millrace/ops/sources/range.h"
#include "tests/support/image_blocks.h"
#include "tests/support/operator_chain.h"

namespace millrace::crop_test {
namespace {

using test::Chain;
using test::counted_image;
using test::FaultyRange;
using test::image_block;
using test::print_element;
using test::values_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kAny = kVaries;

// Rows of `image` uint8 [6,7,2] and `depth` float32 [6,7,1]: each pixel is 10 times its row and its column, as often as
// it has channels.
Block pairs(BufferPool& pool, size_t count) {
  const auto schema = std::make_shared<const Schema>(
      std::vector<FeatureSpec>{{"image", DType::kUint8, {6, 7, 2}}, {"depth", DType::kFloat32, {6, 7, 1}}});
  Block block(
      schema,
      {Column::fixed(pool, DType::kUint8, {6, 7, 2}, count), Column::fixed(pool, DType::kFloat32, {6, 7, 1}, count)},
      count);
  for (size_t i = 0; i < count; ++i) {
    for (size_t v = 0; v < 84; ++v) {
      const size_t pixel = v / 2;
      block.mutable_columns()[0].mutable_values<uint8_t>(i)[v] = static_cast<uint8_t>(10 * (pixel / 7) + pixel % 7);
      block.mutable_columns()[1].mutable_values<float>(i)[pixel] = static_cast<float>(10 * (pixel / 7) + pixel % 7);
    }
  }
  return block;
}

CropOptions options_of(CropKind kind, const std::vector<std::string>& features) {
  CropOptions options{.features = features, .window = {.kind = kind}, .seed = 4};
  if (kind != CropKind::kRandomResized) options.window.height = 3;
  if (kind != CropKind::kRandomResized) options.window.width = 2;
  return options;
}

TEST(Crop, FeaturesAreCroppedToOneWindow) {
  BufferPool pool;
  const Block block = pairs(pool, 200);
  for (const CropKind kind : {CropKind::kCentre, CropKind::kRandom, CropKind::kRandomResized}) {
    const CropOptions options = options_of(kind, {"image", "depth"});
    const CropOperator crop(block.schema(), options);
    const Block cropped = crop.apply(block, pool);
    const CropWindow window(options.window, "crop");
    const CounterRng rng(4, operator_id("crop"));
    std::set<std::vector<double>> unlike;
    for (size_t row = 0; row < block.num_elements(); ++row) {
      const ImageRegion region = window.window(6, 7, rng, row);
      std::vector<double> expected;
      std::vector<double> twice;
      for (int64_t y = region.top; y < region.top + region.height; ++y) {
        for (int64_t x = region.left; x < region.left + region.width; ++x) {
          expected.push_back(static_cast<double>(10 * y + x));
          twice.insert(twice.end(), 2, expected.back());
        }
      }
      ASSERT_EQ(values_of(cropped, row, 1), expected);
      ASSERT_EQ(values_of(cropped, row, 0), twice);
      ASSERT_EQ(cropped.column(0).shape(row), (Shape{region.height, region.width, 2}));
      unlike.insert(expected);
    }
    EXPECT_EQ(unlike.size() > 1, kind != CropKind::kCentre);
    const bool is_resized = kind == CropKind::kRandomResized;
    EXPECT_EQ((*crop.schema())[0].shape, is_resized ? (Shape{kAny, kAny, 2}) : (Shape{3, 2, 2}));
    EXPECT_EQ(crop.traits().uses_row_numbers, kind != CropKind::kCentre);
  }
  EXPECT_EQ(values_of(block, 0, 1), values_of(pairs(pool, 1), 0, 1)) << "the input is shared and must stay";
}

TEST(Crop, RowsBatchesAndCutsGiveTheSameAndSeedsEpochsAndOthersDoNot) {
  BufferPool pool;
  Block rows = pairs(pool, 12);
  rows.first_row = 30;
  const CropOptions options = options_of(CropKind::kRandom, {"image", "depth"});
  const auto all = [&](const Block& block, const CropOptions& with, uint64_t occurrence = 0) {
    const Block cropped = CropOperator(block.schema(), with, occurrence).apply(block, pool);
    std::vector<double> values;
    for (size_t i = 0; i < cropped.num_elements(); ++i) {
      const std::vector<double> some = values_of(cropped, i, 1);
      values.insert(values.end(), some.begin(), some.end());
    }
    return values;
  };
  const std::vector<double> whole = all(rows, options);
  std::vector<double> cut = all(rows.slice(0, 5), options);
  const std::vector<double> rest = all(rows.slice(5, 7), options);
  cut.insert(cut.end(), rest.begin(), rest.end());
  EXPECT_EQ(cut, whole);
  const auto schema = std::make_shared<const Schema>(
      std::vector<FeatureSpec>{{"image", DType::kUint8, {3, 6, 7, 2}}, {"depth", DType::kFloat32, {kAny, 6, 7, 1}}});
  Block batches(schema, {rows.column(0).grouped(3), rows.column(1).grouped(3)}, 4);
  batches.rows_per_element = 3;
  batches.first_row = 30;
  EXPECT_EQ(all(batches, options), whole);
  EXPECT_EQ((*CropOperator(schema, options).schema())[0].shape, (Shape{3, 3, 2, 2}));
  CropOptions other = options;
  other.seed = 5;
  EXPECT_NE(all(rows, other), whole);
  EXPECT_NE(all(rows, options, 1), whole);
  rows.iteration.epoch = 1;
  EXPECT_NE(all(rows, options), whole);
}

TEST(Crop, SizesMayDifferFromRowToRow) {
  BufferPool pool;
  const Block block = image_block(pool, DType::kInt32, {kAny, kAny, 1},
                                  {counted_image({2, 3, 1}), counted_image({1, 4, 1}), counted_image({3, 3, 1})});
  const CropOptions options{.features = {"image"}, .window = {.height = 2, .width = 1}};
  const Block cropped = CropOperator(block.schema(), options).apply(block, pool);
  EXPECT_EQ(print_element(cropped, 0), "image=[[[1]],[[4]]]");
  EXPECT_EQ(
      print_element(cropped, 1),
      "error: wrong_shape: crop: 'image' has shape [1,4,1], and 1 x 4 pixels are smaller than the 2 x 1 to be kept");
  EXPECT_EQ(print_element(cropped, 2), "image=[[[1]],[[4]]]");
}

Chain images_of(const Chain& input, const Shape& declared, const Shape& shape, const Shape& other) {
  return input.then<MapRowsOperator>(RowFunction{.name = "image",
                                                 .writes = {{.name = "a", .dtype = DType::kInt32, .shape = declared},
                                                            {.name = "b", .dtype = DType::kUint8, .shape = declared}},
                                                 .function =
                                                     [=](const RowView&, RowWriter& out) {
                                                       int32_t i = 0;
                                                       for (int32_t& pixel : out.make<int32_t>("a", shape)) pixel = i++;
                                                       for (uint8_t& pixel : out.make<uint8_t>("b", other)) pixel = 7;
                                                     },
                                                 .keep_others = false});
}

TEST(Crop, ErrorsPassAndImagesThatCannotBeAreErrors) {
  const CropOptions resized{.features = {"a", "b"}, .window = {.kind = CropKind::kRandomResized}};
  const CropOptions fixed{.features = {"a"}, .window = {.height = 1, .width = 1}};
  const Chain faulty = Chain::source<FaultyRange>(2, std::vector<int64_t>{0});
  EXPECT_THAT(images_of(faulty, {kAny, kAny, 1}, {1, 1, 1}, {1, 1, 1}).then<CropOperator>(resized).elements(),
              ElementsAre("error: parse: at 0", "a=[[[0]]] b=[[[7]]]"));
  EXPECT_THAT(images_of(faulty, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}).then<CropOperator>(fixed).elements(),
              ElementsAre("error: parse: at 0", "a=[[[0]]] b=[[[7]]]"));
  EXPECT_THAT(images_of(faulty, {kAny, kAny, 1}, {1, 1, 1}, {1, 2, 1}).then<CropOperator>(resized).elements(),
              ElementsAre("error: parse: at 0",
                          "error: wrong_shape: crop: 'b' has shape [1,2,1], and 'a' [1,1,1]; images that are cropped "
                          "alike have one size"));
  const Chain one = Chain::source<RangeOperator>(0, 1, 1, "x");
  EXPECT_THAT(images_of(one, {kAny, kAny, 1}, {0, 2, 1}, {0, 2, 1}).then<CropOperator>(resized).elements(),
              ElementsAre("a=[] b=[]"));
  EXPECT_THAT(images_of(one, {kAny, kAny, 1}, {2, 0, 1}, {2, 0, 1}).then<CropOperator>(resized).elements(),
              ElementsAre("a=[[],[]] b=[[],[]]"));
  EXPECT_THAT(images_of(one, {kAny, kAny, kAny}, {2, 2, 0}, {2, 2, 0}).then<CropOperator>(fixed).elements(),
              ElementsAre("a=[[[]]] b=[[[],[]],[[],[]]]"));
  EXPECT_THAT(images_of(one, {kAny, kAny, 1}, {0, 2, 1}, {1, 1, 1}).then<CropOperator>(fixed).elements(),
              ElementsAre(HasSubstr("'a' has shape [0,2,1], and 0 x 2 pixels are smaller than the 1 x 1")));
  EXPECT_THAT(
      images_of(Chain::source<RangeOperator>(0, 0, 1, "x"), {1, 1, 1}, {}, {}).then<CropOperator>(fixed).elements(),
      IsEmpty());
  const Chain batches = images_of(Chain::source<RangeOperator>(0, 2, 1, "x").then<BatchOperator>(2, BatchOptions{}),
                                  {2, 2, 2}, {2, 2, 2}, {2, 2, 2});
  EXPECT_THAT(batches.then<CropOperator>(fixed).elements()[0],
              HasSubstr("'a' has shape [2,2,2], and batches are [rows,height,width,channels]"));
}

TEST(Crop, BadOptionsAreRefused) {
  const auto why = [](const CropOptions& options, const Shape& a, const Shape& b = {kAny, kAny, 1}) -> std::string {
    try {
      const CropOperator made(std::make_shared<const Schema>(std::vector<FeatureSpec>{
                                  {"a", DType::kUint8, a}, {"b", DType::kFloat32, b}, {"t", DType::kInt64, a}}),
                              options);
    } catch (const ErrorException& error) {
      EXPECT_EQ(error.error().code, ErrorCode::kInvalidArgument);
      return error.what();
    }
    return "accepted";
  };
  const ImageCrop centre{.height = 3, .width = 3};
  const ImageCrop resized{.kind = CropKind::kRandomResized};
  EXPECT_EQ(why({.features = {"a", "b"}, .window = centre}, {3, kAny, 3}), "accepted");
  EXPECT_THAT(why({}, {3, 3, 3}), HasSubstr("crop: centre and random need height and width"));
  EXPECT_THAT(why({.window = centre}, {3, 3, 3}), HasSubstr("crop: name the features; there are a uint8"));
  EXPECT_THAT(why({.features = {"a", "a"}, .window = centre}, {3, 3, 3}), HasSubstr("'a' is named twice"));
  EXPECT_THAT(why({.features = {"t"}, .window = centre}, {3, 3, 3}), HasSubstr("'t' is int64 [3,3,3]"));
  EXPECT_THAT(why({.features = {"a", "b"}, .window = centre}, {3, 4, 3}, {3, 5, 1}), HasSubstr("have one size"));
  EXPECT_THAT(why({.features = {"a", "b"}, .window = centre}, {2, 3, 4, 3}), HasSubstr("some features are batches"));
  EXPECT_THAT(why({.features = {"a"}, .window = centre}, {2, 3, 3}), HasSubstr("2 x 3 pixels are smaller"));
  EXPECT_THAT(why({.features = {"a"}, .window = resized}, {2, 3, 4, 3}), HasSubstr("it stands before batch"));
}

}  // namespace
}  // namespace millrace::crop_test

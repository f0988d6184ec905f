#include "millrace/ops/images/augment_images.h"

#include <cmath>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/random/counter_rng.h"
#include "millrace/ops/batch/batch.h"
#include "millrace/ops/features/map.h"
#include "millrace/ops/sources/range.h"
#include "tests/support/operator_chain.h"

namespace millrace::augment_images_test {
namespace {

using test::Chain;
using test::FaultyRange;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Image = std::vector<float>;

// A right implementation fails a comparison with p = 7e-6; the seeds are fixed.
constexpr double kBound = 4.5;

double deviation(double count, double trials, double p) {
  return (count - trials * p) / std::sqrt(trials * p * (1 - p));
}

// Rows of two images: `low` [2,2,1] of 1 2 3 4, and `high` [4,4,1], each pixel of low as two by two. As int32 too.
Block pairs(BufferPool& pool, size_t count) {
  const auto schema = std::make_shared<const Schema>(std::vector<FeatureSpec>{
      {"low", DType::kFloat32, {2, 2, 1}}, {"high", DType::kFloat32, {4, 4, 1}}, {"bytes", DType::kInt32, {2, 2, 1}}});
  Block block(
      schema,
      {Column::fixed(pool, DType::kFloat32, {2, 2, 1}, count), Column::fixed(pool, DType::kFloat32, {4, 4, 1}, count),
       Column::fixed(pool, DType::kInt32, {2, 2, 1}, count)},
      count);
  Block::Columns& columns = block.mutable_columns();
  for (size_t i = 0; i < count; ++i) {
    for (size_t p = 0; p < 4; ++p) columns[0].mutable_values<float>(i)[p] = static_cast<float>(p + 1);
    for (size_t p = 0; p < 16; ++p)
      columns[1].mutable_values<float>(i)[p] = static_cast<float>(p / 8 * 2 + p % 4 / 2 + 1);
    for (size_t p = 0; p < 4; ++p) columns[2].mutable_values<int32_t>(i)[p] = static_cast<int32_t>(60 * p + 30);
  }
  return block;
}

Image image_of(const Block& block, std::string_view feature, size_t element) {
  const auto values = block.column(feature).values<float>(element);
  return {values.begin(), values.end()};
}

std::map<Image, double> changed_images(const AugmentImagesOptions& options, size_t count) {
  BufferPool pool;
  const Block block = pairs(pool, count);
  const Block changed = AugmentImagesOperator(block.schema(), options).apply(block, pool);
  std::map<Image, double> counts;
  for (size_t i = 0; i < count; ++i) {
    const Image low = image_of(changed, "low", i);
    ++counts[low];
    if (options.features.size() < 2) continue;
    // The pair is changed alike.
    const Image high = image_of(changed, "high", i);
    for (size_t p = 0; p < 16; ++p) EXPECT_EQ(high[p], low[p / 8 * 2 + p % 4 / 2]);
  }
  EXPECT_EQ(image_of(block, "low", 0), (Image{1, 2, 3, 4})) << "the input is shared and must stay";
  return counts;
}

void expect_equally_often(const std::map<Image, double>& counts, const std::vector<Image>& images, double trials) {
  EXPECT_EQ(counts.size(), images.size());
  for (const Image& image : images) {
    const auto found = counts.find(image);
    ASSERT_NE(found, counts.end()) << testing::PrintToString(image);
    if (images.size() == 1) continue;
    EXPECT_LT(std::abs(deviation(found->second, trials, 1.0 / static_cast<double>(images.size()))), kBound);
  }
}

TEST(AugmentImagesTest, PairsAreTurnedAndFlippedTogetherEachWayEquallyOften) {
  const std::vector<std::string> both{"low", "high"};
  expect_equally_often(changed_images({.features = both, .rotate = true}, 4000),
                       {{1, 2, 3, 4}, {2, 4, 1, 3}, {4, 3, 2, 1}, {3, 1, 4, 2}}, 4000);
  expect_equally_often(changed_images({.features = both, .flip_left_right = true}, 4000), {{1, 2, 3, 4}, {2, 1, 4, 3}},
                       4000);
  expect_equally_often(changed_images({.features = both, .flip_up_down = true}, 4000), {{1, 2, 3, 4}, {3, 4, 1, 2}},
                       4000);
  expect_equally_often(
      changed_images({.features = both, .rotate = true, .flip_left_right = true, .flip_up_down = true}, 8000),
      {{1, 2, 3, 4}, {2, 4, 1, 3}, {4, 3, 2, 1}, {3, 1, 4, 2}, {2, 1, 4, 3}, {1, 3, 2, 4}, {3, 4, 1, 2}, {4, 2, 3, 1}},
      8000);
  expect_equally_often(changed_images({.features = both}, 10), {{1, 2, 3, 4}}, 10);
}

TEST(AugmentImagesTest, TurnsGoCounterclockwise) {
  BufferPool pool;
  const Block block = pairs(pool, 50);
  const Block changed = AugmentImagesOperator(block.schema(), {.features = {"low"}, .rotate = true}).apply(block, pool);
  const CounterRng rng(0, operator_id("augment_images"));
  const std::vector<Image> turned{{1, 2, 3, 4}, {2, 4, 1, 3}, {4, 3, 2, 1}, {3, 1, 4, 2}};
  for (size_t i = 0; i < 50; ++i) EXPECT_EQ(image_of(changed, "low", i), turned[rng.words(i)[0] >> 30]);
}

TEST(AugmentImagesTest, WhatIsNotSquareIsFlippedWithItsChannels) {
  BufferPool pool;
  const auto schema = std::make_shared<const Schema>(std::vector<FeatureSpec>{{"x", DType::kInt32, {2, 3, 2}}});
  Block block(schema, {Column::fixed(pool, DType::kInt32, {2, 3, 2}, 40)}, 40);
  for (size_t i = 0; i < 40 * 12; ++i)
    block.mutable_columns()[0].mutable_values<int32_t>()[i] = static_cast<int32_t>(i % 12);
  const Block changed =
      AugmentImagesOperator(schema, {.features = {"x"}, .flip_left_right = true, .flip_up_down = true})
          .apply(block, pool);
  std::map<std::vector<int32_t>, int> counts;
  for (size_t i = 0; i < 40; ++i) {
    const auto values = changed.column(0).values<int32_t>(i);
    ++counts[{values.begin(), values.end()}];
  }
  EXPECT_EQ(counts.size(), 4u);
  EXPECT_EQ(counts.count({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}), 1u);
  EXPECT_EQ(counts.count({4, 5, 2, 3, 0, 1, 10, 11, 8, 9, 6, 7}), 1u);
  EXPECT_EQ(counts.count({6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5}), 1u);
  EXPECT_EQ(counts.count({10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1}), 1u);
}

TEST(AugmentImagesTest, BrightnessAddsOneUniformNumberToAPair) {
  BufferPool pool;
  constexpr size_t kRows = 5000;
  const Block block = pairs(pool, kRows);
  const Block changed = AugmentImagesOperator(block.schema(), {.features = {"low", "high", "bytes"}, .brightness = 0.4})
                            .apply(block, pool);
  double sum = 0;
  double squares = 0;
  for (size_t i = 0; i < kRows; ++i) {
    const Image low = image_of(changed, "low", i);
    const float added = low[0] - 1;
    ASSERT_LE(std::abs(added), 0.4F + 1e-6F);
    for (size_t p = 0; p < 4; ++p) ASSERT_NEAR(low[p], static_cast<float>(p + 1) + added, 1e-6);
    ASSERT_NEAR(image_of(changed, "high", i)[15], 4 + added, 1e-6);
    for (size_t p = 0; p < 4; ++p) {
      const double expected =
          std::clamp(60.0 * static_cast<double>(p) + 30 + 255 * static_cast<double>(added), 0.0, 255.0);
      ASSERT_NEAR(changed.column("bytes").values<int32_t>(i)[p], expected, 0.5 + 1e-3);
    }
    sum += added;
    squares += added * added;
  }
  // Uniform in [-0.4, 0.4]: variance 0.16/3, that of squares 0.4^4 * 4/45.
  EXPECT_LT(std::abs(sum / kRows) / std::sqrt(0.16 / 3 / kRows), kBound);
  EXPECT_LT(std::abs(squares / kRows - 0.16 / 3) / std::sqrt(std::pow(0.4, 4) * 4 / 45 / kRows), kBound);
}

TEST(AugmentImagesTest, ContrastKeepsTheMeanOfEachChannel) {
  BufferPool pool;
  constexpr size_t kRows = 3000;
  const auto schema = std::make_shared<const Schema>(std::vector<FeatureSpec>{{"x", DType::kFloat32, {1, 2, 2}}});
  Block block(schema, {Column::fixed(pool, DType::kFloat32, {1, 2, 2}, kRows)}, kRows);
  for (size_t i = 0; i < kRows; ++i) {
    // Channels 2 4 and -1 1.
    const std::array<float, 4> values{2, -1, 4, 1};
    std::copy(values.begin(), values.end(), block.mutable_columns()[0].mutable_values<float>(i).begin());
  }
  const Block changed = AugmentImagesOperator(schema, {.features = {"x"}, .contrast = {0.5, 1.5}}).apply(block, pool);
  double sum = 0;
  for (size_t i = 0; i < kRows; ++i) {
    const Image x = image_of(changed, "x", i);
    const float factor = x[3];
    ASSERT_TRUE(factor >= 0.5F && factor <= 1.5F);
    ASSERT_NEAR(x[1], -factor, 1e-6);
    ASSERT_NEAR(x[0], 3 - factor, 1e-6);
    ASSERT_NEAR(x[2], 3 + factor, 1e-6);
    sum += factor;
  }
  EXPECT_LT(std::abs(sum / kRows - 1) / std::sqrt(1.0 / 12 / kRows), kBound);
}

// One pixel of an image for each colour.
Block colours(BufferPool& pool, DType dtype, size_t count) {
  const auto schema = std::make_shared<const Schema>(std::vector<FeatureSpec>{{"x", dtype, {1, 7, 3}}});
  Block block(schema, {Column::fixed(pool, dtype, {1, 7, 3}, count)}, count);
  constexpr std::array<float, 21> kColours{0.75F, 0.5F,   0.25F, 0.25F, 0.75F, 0.5F, 0.5F, 0.25F, 0.75F, 1, 0,
                                           0,     0.125F, 0.5F,  0.5F,  0.5F,  0.5F, 0.5F, 0,     0,     0};
  for (size_t i = 0; i < kColours.size() * count; ++i) {
    const float value = kColours[i % kColours.size()];
    visit_dtype(dtype, [&]<typename T>() {
      if constexpr (std::is_floating_point_v<T>) block.mutable_columns()[0].mutable_values<T>()[i] = value;
      if constexpr (std::is_integral_v<T>) {
        block.mutable_columns()[0].mutable_values<T>()[i] = static_cast<T>(std::lround(255 * value));
      }
    });
  }
  return block;
}

// By hue, saturation and value, as colorsys of Python's library has them.
std::array<double, 3> recoloured(std::span<const float> rgb, double factor, double turns) {
  const double most = std::max({rgb[0], rgb[1], rgb[2]});
  const double least = std::min({rgb[0], rgb[1], rgb[2]});
  if (most == least) return {most, most, most};
  const double saturation = std::min((most - least) / most * factor, 1.0);
  const auto apart = [&](float channel) { return (most - channel) / (most - least); };
  const double r = apart(rgb[0]);
  const double g = apart(rgb[1]);
  const double b = apart(rgb[2]);
  double hue = (rgb[0] == most ? b - g : rgb[1] == most ? 2 + r - b : 4 + g - r) / 6 + turns;
  hue -= std::floor(hue);
  const int sixth = static_cast<int>(hue * 6);
  const double rest = hue * 6 - sixth;
  const double p = most * (1 - saturation);
  const double q = most * (1 - saturation * rest);
  const double t = most * (1 - saturation * (1 - rest));
  const std::array<std::array<double, 3>, 6> sixths{
      {{most, t, p}, {q, most, p}, {p, most, t}, {p, q, most}, {t, p, most}, {most, p, q}}};
  return sixths[static_cast<size_t>(sixth) % 6];
}

TEST(AugmentImagesTest, SaturationAndHueAreChangedByTheCircleOfColours) {
  BufferPool pool;
  constexpr size_t kRows = 2000;
  for (const DType dtype : {DType::kFloat32, DType::kUint8, DType::kInt32}) {
    const Block block = colours(pool, dtype, kRows);
    const AugmentImagesOptions options{.features = {"x"}, .saturation = {0.5, 1.75}, .hue = 0.3};
    const Block changed = AugmentImagesOperator(block.schema(), options).apply(block, pool);
    const CounterRng rng(0, operator_id("augment_images"));
    for (size_t row = 0; row < kRows; ++row) {
      const double factor = 0.5 + 1.25 * std::ldexp(rng.words(row, 1)[0], -32);
      const double turns = 0.3 * (std::ldexp(rng.words(row, 1)[1], -31) - 1);
      for (size_t pixel = 0; pixel < 7; ++pixel) {
        std::array<float, 3> before{};
        visit_dtype(dtype, [&]<typename T>() {
          if constexpr (std::is_arithmetic_v<T>) {
            const std::span<const T> values = block.column(0).values<T>(row).subspan(3 * pixel, 3);
            std::copy(values.begin(), values.end(), before.begin());
          }
        });
        const auto expected = recoloured(before, factor, turns);
        for (size_t c = 0; c < 3; ++c) {
          visit_dtype(dtype, [&]<typename T>() {
            if constexpr (std::is_arithmetic_v<T>) {
              const auto value = static_cast<double>(changed.column(0).values<T>(row)[3 * pixel + c]);
              constexpr bool kWhole = std::is_integral_v<T>;
              ASSERT_NEAR(value, expected[c], kWhole ? 0.5 + 1e-4 : 1e-6)
                  << to_string(dtype) << " row " << row << " pixel " << pixel << " channel " << c;
            }
          });
        }
      }
    }
  }
}

TEST(AugmentImagesTest, ContrastSaturationAndHueOfFloatsAreTheSameOnAnyScale) {
  BufferPool pool;
  const auto changed = [&](float scale) {
    Block block = colours(pool, DType::kFloat32, 50);
    for (float& value : block.mutable_columns()[0].mutable_values<float>()) value *= scale;
    const AugmentImagesOptions options{
        .features = {"x"}, .contrast = {0.5, 1.5}, .saturation = {0.5, 1.75}, .hue = 0.3};
    const Block all = AugmentImagesOperator(block.schema(), options).apply(std::move(block), pool);
    const auto values = all.column(0).values<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  std::vector<float> expected = changed(1);
  for (float& value : expected) value *= 256;  // a power of two rounds nothing
  EXPECT_EQ(changed(256), expected);
}

// tf.image.adjust_saturation(tf.image.adjust_hue(x, 0.5), 0) and its like: half a turn gives the complement.
TEST(AugmentImagesTest, WithoutSaturationWhatIsLeftIsGreyAndWithMoreItIsPure) {
  BufferPool pool;
  const Block block = colours(pool, DType::kUint8, 3);
  const auto all = [&](const AugmentImagesOptions& options) {
    const Block changed = AugmentImagesOperator(block.schema(), options).apply(block, pool);
    const auto values = changed.column(0).values<uint8_t>(2);
    return std::vector<int>(values.begin(), values.end());
  };
  EXPECT_THAT(
      all({.features = {"x"}, .saturation = {0, 0}}),
      ElementsAre(191, 191, 191, 191, 191, 191, 191, 191, 191, 255, 255, 255, 128, 128, 128, 128, 128, 128, 0, 0, 0));
  // Below black there is no saturation, and nothing is divided by 0.
  const auto schema = std::make_shared<const Schema>(std::vector<FeatureSpec>{{"x", DType::kFloat32, {1, 1, 3}}});
  Block below(schema, {Column::fixed(pool, DType::kFloat32, {1, 1, 3}, 1)}, 1);
  const std::array<float, 3> dark{0, -0.25F, -0.5F};
  std::copy(dark.begin(), dark.end(), below.mutable_columns()[0].mutable_values<float>().begin());
  const Block grey = AugmentImagesOperator(schema, {.features = {"x"}, .saturation = {0, 0}}).apply(below, pool);
  EXPECT_THAT(grey.column(0).values<float>(), ElementsAre(0, 0, 0));
  EXPECT_THAT(all({.features = {"x"}, .saturation = {1e6, 1e6}}),
              ElementsAre(191, 96, 0, 0, 191, 96, 96, 0, 191, 255, 0, 0, 0, 128, 128, 128, 128, 128, 0, 0, 0));
}

TEST(AugmentImagesTest, FloatsAreCutWhereThatIsAskedFor) {
  BufferPool pool;
  const Block block = pairs(pool, 200);
  const Block changed =
      AugmentImagesOperator(block.schema(),
                            {.features = {"low"}, .brightness = 5, .contrast = {1, 2}, .clip = std::pair(0.0, 4.5)})
          .apply(block, pool);
  const auto values = changed.column("low").values<float>();
  EXPECT_EQ(*std::min_element(values.begin(), values.end()), 0);
  EXPECT_EQ(*std::max_element(values.begin(), values.end()), 4.5F);
}

TEST(AugmentImagesTest, RowsBatchesAndCutsGiveTheSameAndSeedsEpochsAndOthersDoNot) {
  BufferPool pool;
  Block rows = pairs(pool, 12);
  rows.first_row = 30;
  const AugmentImagesOptions options{.features = {"low", "high"},
                                     .rotate = true,
                                     .flip_left_right = true,
                                     .brightness = 0.5,
                                     .contrast = {0.9, 1.1},
                                     .seed = 4};
  const auto lows = [&](const Block& block, const AugmentImagesOptions& with, uint64_t occurrence = 0) {
    const Block changed = AugmentImagesOperator(block.schema(), with, occurrence).apply(block, pool);
    const auto values = changed.column("low").values<float>();
    return Image(values.begin(), values.end());
  };
  const Image whole = lows(rows, options);
  Image cut = lows(rows.slice(0, 5), options);
  // A slice knows its first row.
  const Image rest = lows(rows.slice(5, 7), options);
  cut.insert(cut.end(), rest.begin(), rest.end());
  EXPECT_EQ(cut, whole);
  const auto schema = std::make_shared<const Schema>(
      std::vector<FeatureSpec>{{"low", DType::kFloat32, {3, 2, 2, 1}}, {"high", DType::kFloat32, {3, 4, 4, 1}}});
  Block batches(schema, {rows.column(0).grouped(3), rows.column(1).grouped(3)}, 4);
  batches.rows_per_element = 3;
  batches.first_row = 30;
  EXPECT_EQ(lows(batches, options), whole);
  AugmentImagesOptions other = options;
  other.seed = 5;
  EXPECT_NE(lows(rows, other), whole);
  EXPECT_NE(lows(rows, options, 1), whole);
  rows.iteration.epoch = 1;
  EXPECT_NE(lows(rows, options), whole);
}

Chain images_of(const Chain& input, const Shape& declared, const Shape& shape) {
  return input.then<MapRowsOperator>(
      RowFunction{.name = "image",
                  .writes = {{.name = "image", .dtype = DType::kInt32, .shape = declared}},
                  .function =
                      [shape](const RowView&, RowWriter& out) {
                        int32_t i = 0;
                        for (int32_t& pixel : out.make<int32_t>("image", shape)) pixel = i++;
                      },
                  .keep_others = false});
}

TEST(AugmentImagesTest, ErrorsPassAndImagesThatCannotBeAreErrors) {
  const AugmentImagesOptions turn{.features = {"image"}, .rotate = true};
  const AugmentImagesOptions nothing{.features = {"image"}};
  const Chain faulty = Chain::source<FaultyRange>(2, std::vector<int64_t>{0});
  EXPECT_THAT(images_of(faulty, {kVaries, kVaries, 1}, {1, 2, 1}).then<AugmentImagesOperator>(turn).elements(),
              ElementsAre("error: parse: at 0",
                          "error: wrong_shape: augment_images: 'image' has shape [1,2,1], and only square images are "
                          "rotated"));
  EXPECT_THAT(images_of(faulty, {1, 2, 1}, {1, 2, 1}).then<AugmentImagesOperator>(nothing).elements(),
              ElementsAre("error: parse: at 0", "image=[[[0],[1]]]"));
  EXPECT_THAT(images_of(Chain::source<RangeOperator>(0, 0, 1, "x"), {1, 2, 1}, {1, 2, 1})
                  .then<AugmentImagesOperator>(nothing)
                  .elements(),
              IsEmpty());
  EXPECT_THAT(images_of(Chain::source<RangeOperator>(0, 1, 1, "x"), {1, 2, kVaries}, {1, 2, 1})
                  .then<AugmentImagesOperator>(AugmentImagesOptions{.features = {"image"}, .hue = 0.1})
                  .elements(),
              ElementsAre(HasSubstr("'image' has shape [1,2,1], and saturation and hue need 3 channels")));
  // Batches of images without channels look like images.
  const Chain batches = images_of(Chain::source<RangeOperator>(0, 2, 1, "x").then<BatchOperator>(2, BatchOptions{}),
                                  {2, 2, 2}, {2, 2, 2});
  EXPECT_THAT(batches.then<AugmentImagesOperator>(nothing).elements()[0],
              HasSubstr("'image' has shape [2,2,2], and batches are [rows,height,width,channels]"));
}

TEST(AugmentImagesTest, BadOptionsAreRefused) {
  BufferPool pool;
  const SchemaPtr schema = pairs(pool, 1).schema();
  const auto why = [&](const AugmentImagesOptions& options, SchemaPtr input = nullptr) -> std::string {
    try {
      const AugmentImagesOperator made(input ? input : schema, options);
    } catch (const ErrorException& error) {
      EXPECT_EQ(error.error().code, ErrorCode::kInvalidArgument);
      return error.what();
    }
    return "accepted";
  };
  const auto of = [](DType dtype, const Shape& shape) {
    return std::make_shared<const Schema>(std::vector<FeatureSpec>{{"image", dtype, shape}});
  };
  EXPECT_EQ(why({.features = {"low", "bytes"}}), "accepted");
  EXPECT_THAT(why({}), HasSubstr("name the features"));
  EXPECT_THAT(why({.features = {"low", "low"}}), HasSubstr("'low' is named twice"));
  EXPECT_THAT(why({.features = {"x"}}), HasSubstr("'x'"));
  EXPECT_THAT(why({.features = {"low"}, .brightness = -1}), HasSubstr("brightness is -1"));
  EXPECT_THAT(why({.features = {"low"}, .contrast = {1, 0.5}}), HasSubstr("contrast is 1 to 0.5"));
  EXPECT_THAT(why({.features = {"low"}, .contrast = {-1, 0.5}}), HasSubstr("contrast is -1 to 0.5"));
  EXPECT_THAT(why({.features = {"image"}, .saturation = {1, 0.5}}, of(DType::kUint8, {2, 2, 3})),
              HasSubstr("saturation is 1 to 0.5"));
  EXPECT_THAT(why({.features = {"low"}, .hue = 0.1}), HasSubstr("saturation and hue need 3 channels"));
  EXPECT_THAT(why({.features = {"image"}, .hue = 0.51}, of(DType::kUint8, {2, 2, 3})), HasSubstr("hue is 0.51"));
  EXPECT_EQ(why({.features = {"image"}, .hue = 0.5}, of(DType::kUint8, {2, 2, kVaries})), "accepted");
  EXPECT_THAT(why({.features = {"low"}, .clip = std::pair(1.0, 1.0)}), HasSubstr("clip is 1 to 1"));
  EXPECT_THAT(why({.features = {"image"}}, of(DType::kInt64, {2, 2, 1})), HasSubstr("'image' is int64 [2,2,1]"));
  EXPECT_THAT(why({.features = {"image"}}, of(DType::kInt32, {2, 2})), HasSubstr("'image' is int32 [2,2]"));
  EXPECT_THAT(why({.features = {"image"}, .rotate = true}, of(DType::kInt32, {2, 3, 1})),
              HasSubstr("only square images are rotated"));
}

}  // namespace
}  // namespace millrace::augment_images_test

#include "millrace/ops/images/crop_window.h"

#include <cmath>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"

namespace millrace::crop_window_test {
namespace {

using ::testing::HasSubstr;

// A right implementation fails a comparison with p = 7e-6; the seeds are fixed.
constexpr double kBound = 4.5;
constexpr uint64_t kRows = 20000;

const CounterRng& some_rng() {
  static const CounterRng rng(11, operator_id("crop"));
  return rng;
}

ImageRegion window_of(const ImageCrop& crop, int64_t height, int64_t width, uint64_t row = 0) {
  return CropWindow(crop, "crop").window(height, width, some_rng(), row);
}

TEST(CropWindow, TheCentreHasTheLargerHalfAfterIt) {
  const ImageCrop crop{.kind = CropKind::kCentre, .height = 3, .width = 4};
  EXPECT_EQ(window_of(crop, 6, 9), (ImageRegion{1, 2, 3, 4}));
  EXPECT_EQ(window_of(crop, 3, 4), (ImageRegion{0, 0, 3, 4}));
  EXPECT_FALSE(CropWindow(crop, "crop").is_random());
}

TEST(CropWindow, ARandomOneIsAtEachPlaceEquallyOften) {
  const ImageCrop crop{.kind = CropKind::kRandom, .height = 3, .width = 4};
  std::map<std::pair<int64_t, int64_t>, double> counts;
  for (uint64_t row = 0; row < kRows; ++row) {
    const ImageRegion region = window_of(crop, 5, 7, row);
    EXPECT_EQ(region.height, 3);
    EXPECT_EQ(region.width, 4);
    ++counts[{region.top, region.left}];
    // As the header says: 64 bits for each, multiplied by the number of places.
    const CounterRng::Words words = some_rng().words(row);
    EXPECT_EQ(region.top, static_cast<int64_t>(std::ldexp(words[1], -32) * 3));
    EXPECT_EQ(region.left, static_cast<int64_t>(std::ldexp(words[3], -32) * 4));
  }
  ASSERT_EQ(counts.size(), 12U);
  for (const auto& [place, count] : counts) {
    const double p = 1.0 / 12;
    EXPECT_LT(std::abs(count - kRows * p) / std::sqrt(kRows * p * (1 - p)), kBound) << place.first << place.second;
  }
}

// torchvision/transforms/transforms.py, RandomResizedCrop.get_params, with the numbers that the words are.
ImageRegion params_of(const ImageCrop& crop, int64_t height, int64_t width, uint64_t row) {
  const auto h = static_cast<double>(height);
  const auto w = static_cast<double>(width);
  for (int64_t i = 0; i < crop.attempts; ++i) {
    const CounterRng::Words words = some_rng().words(row, static_cast<uint64_t>(i));
    const auto uniform = [&](double a, double b, size_t word) { return a + (b - a) * words[word] / 4294967296.0; };
    const double target_area = h * w * uniform(crop.area.first, crop.area.second, 0);
    const double aspect_ratio = std::exp(uniform(std::log(crop.ratio.first), std::log(crop.ratio.second), 1));
    const double new_w = std::round(std::sqrt(target_area * aspect_ratio));
    const double new_h = std::round(std::sqrt(target_area / aspect_ratio));
    if (0 < new_w && new_w <= w && 0 < new_h && new_h <= h) {
      return {static_cast<int64_t>(uniform(0, h - new_h + 1, 2)), static_cast<int64_t>(uniform(0, w - new_w + 1, 3)),
              static_cast<int64_t>(new_h), static_cast<int64_t>(new_w)};
    }
  }
  double new_w = w;
  double new_h = h;
  if (w / h < crop.ratio.first) {
    new_h = std::round(new_w / crop.ratio.first);
  } else if (w / h > crop.ratio.second) {
    new_w = std::round(new_h * crop.ratio.second);
  }
  return {static_cast<int64_t>(h - new_h) / 2, static_cast<int64_t>(w - new_w) / 2, static_cast<int64_t>(new_h),
          static_cast<int64_t>(new_w)};
}

TEST(CropWindow, RandomResizedIsThatOfTorchvision) {
  for (const ImageCrop& crop : {ImageCrop{.kind = CropKind::kRandomResized},
                                ImageCrop{.kind = CropKind::kRandomResized, .area = {0.5, 1}, .ratio = {0.5, 3}},
                                ImageCrop{.kind = CropKind::kRandomResized, .area = {0.9, 1}, .attempts = 2}}) {
    for (const auto& [height, width] : std::vector<std::pair<int64_t, int64_t>>{
             {375, 500}, {500, 333}, {7, 9}, {1, 1}, {1, 30}, {30, 2}, {224, 224}, {100, 2000}}) {
      for (uint64_t row = 0; row < 500; ++row) {
        const ImageRegion region = window_of(crop, height, width, row);
        ASSERT_EQ(region, params_of(crop, height, width, row)) << height << " x " << width << " row " << row;
        ASSERT_TRUE(region.top >= 0 && region.height >= 1 && region.top + region.height <= height);
        ASSERT_TRUE(region.left >= 0 && region.width >= 1 && region.left + region.width <= width);
      }
    }
  }
}

// The mean and the mean of squares of uniform numbers in [-1, 1], in standard deviations.
void expect_uniform(const std::vector<double>& numbers, const char* what) {
  double sum = 0;
  double squares = 0;
  for (const double x : numbers) {
    sum += x;
    squares += x * x;
  }
  const auto n = static_cast<double>(numbers.size());
  EXPECT_LT(std::abs(sum / n) / std::sqrt(1 / (3 * n)), kBound) << what;
  EXPECT_LT(std::abs(squares / n - 1.0 / 3) / std::sqrt(4 / (45 * n)), kBound) << what;
}

TEST(CropWindow, AreasAndLogarithmsOfRatiosAndPlacesAreUniform) {
  // Every window of these fits, so the first attempt counts; of a large image, whose pixels are fine enough.
  const ImageCrop crop{.kind = CropKind::kRandomResized, .area = {0.25, 0.5}, .ratio = {0.75, 4.0 / 3}};
  constexpr int64_t kSide = 100000;
  std::vector<double> areas;
  std::vector<double> ratios;
  std::vector<double> tops;
  std::vector<double> lefts;
  for (uint64_t row = 0; row < kRows; ++row) {
    const ImageRegion region = window_of(crop, kSide, kSide, row);
    const double share = static_cast<double>(region.height) * static_cast<double>(region.width) / 1e10;
    areas.push_back((share - 0.375) / 0.125);
    ratios.push_back(std::log(static_cast<double>(region.width) / static_cast<double>(region.height)) /
                     std::log(4.0 / 3));
    tops.push_back(2 * static_cast<double>(region.top) / static_cast<double>(kSide - region.height) - 1);
    lefts.push_back(2 * static_cast<double>(region.left) / static_cast<double>(kSide - region.width) - 1);
    ASSERT_LE(std::abs(areas.back()), 1.001);
    ASSERT_LE(std::abs(ratios.back()), 1.001);
  }
  expect_uniform(areas, "area");
  expect_uniform(ratios, "ratio");
  expect_uniform(tops, "top");
  expect_uniform(lefts, "left");
}

TEST(CropWindow, WhereNoAttemptFitsItIsTheLargestInTheCentre) {
  ImageCrop crop{.kind = CropKind::kRandomResized};
  EXPECT_EQ(window_of(crop, 10, 1000), (ImageRegion{0, 493, 10, 13}));
  EXPECT_EQ(window_of(crop, 1000, 9), (ImageRegion{494, 0, 12, 9}));
  crop.attempts = 0;
  EXPECT_EQ(window_of(crop, 30, 31), (ImageRegion{0, 0, 30, 31}));
  EXPECT_EQ(window_of(crop, 0, 31), (ImageRegion{0, 0, 0, 31}));
  EXPECT_EQ(window_of(crop, 31, 0), (ImageRegion{0, 0, 31, 0}));
}

TEST(CropWindow, SmallerImagesHaveNone) {
  const CropWindow fixed({.kind = CropKind::kRandom, .height = 3, .width = 4}, "crop");
  EXPECT_EQ(fixed.why_not(3, 4), "");
  EXPECT_EQ(fixed.why_not(2, 9), "2 x 9 pixels are smaller than the 3 x 4 to be kept");
  EXPECT_NE(fixed.why_not(3, 3), "");
  const CropWindow resized({.kind = CropKind::kRandomResized}, "crop");
  EXPECT_EQ(resized.why_not(0, 0), "");
  EXPECT_EQ(resized.fixed_size(), std::nullopt);
  EXPECT_EQ(fixed.fixed_size(), (std::pair<int64_t, int64_t>{3, 4}));
}

TEST(CropWindow, BadOptionsAreRefused) {
  const auto why = [](const ImageCrop& crop) -> std::string {
    try {
      const CropWindow made(crop, "decode");
    } catch (const ErrorException& error) {
      EXPECT_EQ(error.error().code, ErrorCode::kInvalidArgument);
      return error.what();
    }
    return "accepted";
  };
  using enum CropKind;
  EXPECT_THAT(why({}), HasSubstr("decode: centre and random need height and width"));
  EXPECT_THAT(why({.kind = kRandom, .height = 3}), HasSubstr("need height and width"));
  EXPECT_THAT(why({.height = 0, .width = 1}), HasSubstr("height is 0"));
  EXPECT_THAT(why({.height = 1, .width = 65537}), HasSubstr("width is 65537"));
  EXPECT_THAT(why({.kind = kRandomResized, .height = 3, .width = 3}), HasSubstr("resize comes after it"));
  EXPECT_THAT(why({.kind = kRandomResized, .area = {0, 1}}), HasSubstr("area is 0 to 1"));
  EXPECT_THAT(why({.kind = kRandomResized, .area = {0.5, 0.4}}), HasSubstr("area is 0.5 to 0.4"));
  EXPECT_THAT(why({.kind = kRandomResized, .area = {0.5, 1.5}}), HasSubstr("area is 0.5 to 1.5"));
  EXPECT_THAT(why({.kind = kRandomResized, .ratio = {2, 1}}), HasSubstr("ratio is 2 to 1"));
  EXPECT_THAT(why({.kind = kRandomResized, .ratio = {0, 1}}), HasSubstr("ratio is 0 to 1"));
  EXPECT_THAT(why({.kind = kRandomResized, .ratio = {1, NAN}}), HasSubstr("ratio is 1 to nan"));
  EXPECT_THAT(why({.kind = kRandomResized, .attempts = -1}), HasSubstr("attempts is -1"));
  EXPECT_EQ(why({.kind = kRandomResized, .area = {1, 1}, .ratio = {1, 1}, .attempts = 0}), "accepted");
}

}  // namespace
}  // namespace millrace::crop_window_test

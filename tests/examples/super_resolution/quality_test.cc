#include "examples/super_resolution/quality.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/models/vgg.h"
#include "tests/examples/super_resolution/small_pictures.h"

namespace millrace::quality_test {
namespace {

using test::drawn_image;
using ::testing::HasSubstr;

// One value for all but the pixels inside of the border.
RgbImage<uint8_t> framed(int64_t height, int64_t width, const std::vector<uint8_t>& inside, uint8_t outside) {
  RgbImage<uint8_t> image{.height = height + 8, .width = width + 8};
  image.pixels.assign(static_cast<size_t>(image.height) * image.row_size(), outside);
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t i = 0; i < width * 3; ++i) {
      image.pixels[static_cast<size_t>((y + 4) * image.width * 3 + 12 + i)] =
          inside[static_cast<size_t>(y * width * 3 + i)];
    }
  }
  return image;
}

TEST(ImageQuality, IsThatOfSmallNumbersByHand) {
  // 2 x 2 pixels; the border differs in all, and does not count.
  const auto original = framed(2, 2, {0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0, 255}, 0);
  const auto made = framed(2, 2, {3, 0, 0, 255, 255, 251, 255, 0, 0, 0, 0, 255}, 200);
  const ImageQuality quality = quality_of(made, original);
  // Squared differences of 9 and 16 in 12 values: 255² · 12 / 25.
  EXPECT_NEAR(quality.psnr_rgb, 10 * std::log10(255.0 * 255 * 12 / 25), 1e-9);
  EXPECT_NEAR(quality.psnr_rgb, 44.943, 1e-3);
  // Luma differs by 65.481 · 3 / 255 = 0.77036 and 24.966 · 4 / 255 = 0.39162 in 4 pixels: mean square 0.18670.
  EXPECT_NEAR(quality.psnr_y, 55.4193, 1e-3);
  // Luma of black 16, white 235, red 81.481: 219 to the right, 65.481 down.
  EXPECT_NEAR(quality_of(original, original).gradient, std::hypot(219.0, 65.481), 1e-9);
  EXPECT_NEAR(quality.gradient, std::hypot(235 - 0.391624 - 16.770365, 81.481 - 16.770365), 1e-5);
  EXPECT_EQ(quality_of(original, original).psnr_rgb, std::numeric_limits<double>::infinity());
  EXPECT_EQ(quality_of(original, original).psnr_y, std::numeric_limits<double>::infinity());
}

// The same by one loop over pixels, with MATLAB's matrix as it is written there.
TEST(ImageQuality, IsThatOfASlowReference) {
  const auto luma = [](const RgbImage<uint8_t>& image, int64_t y, int64_t x) {
    const uint8_t* pixel = image.pixels.data() + (y * image.width + x) * 3;
    return 65.481 / 255 * pixel[0] + 128.553 / 255 * pixel[1] + 24.966 / 255 * pixel[2] + 16;
  };
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>(30, 41), {10, 64}}) {
    const auto original = drawn_image(height, width, 1);
    const auto made = drawn_image(height, width, 2);
    double rgb = 0, y_sum = 0, gradient = 0;
    int64_t pixels = 0, gradients = 0;
    for (int64_t y = 4; y < height - 4; ++y) {
      for (int64_t x = 4; x < width - 4; ++x) {
        for (int64_t c = 0; c < 3; ++c) {
          const auto at = static_cast<size_t>((y * width + x) * 3 + c);
          rgb += std::pow(int{original.pixels[at]} - int{made.pixels[at]}, 2);
        }
        y_sum += std::pow(luma(original, y, x) - luma(made, y, x), 2);
        ++pixels;
        if (y + 1 == height - 4 || x + 1 == width - 4) continue;
        const double right = luma(made, y, x + 1) - luma(made, y, x);
        const double down = luma(made, y + 1, x) - luma(made, y, x);
        gradient += std::sqrt(right * right + down * down);
        ++gradients;
      }
    }
    const ImageQuality quality = quality_of(made, original);
    EXPECT_NEAR(quality.psnr_rgb, 10 * std::log10(65025 / (rgb / static_cast<double>(3 * pixels))), 1e-9);
    EXPECT_NEAR(quality.psnr_y, 10 * std::log10(65025 / (y_sum / static_cast<double>(pixels))), 1e-9);
    EXPECT_NEAR(quality.gradient, gradient / static_cast<double>(gradients), 1e-9);
  }
}

TEST(ImageQuality, RefusesImagesThatCannotBeCompared) {
  const auto refusal = [](int64_t height, int64_t width) -> std::string {
    try {
      (void)quality_of(drawn_image(height, width, 1), drawn_image(20, 9, 1));
      return "none";
    } catch (const ErrorException& exception) {
      return exception.what();
    }
  };
  EXPECT_THAT(refusal(20, 10), HasSubstr("wrong_shape: an image of 20 x 10 pixels, measured by one of 20 x 9"));
  EXPECT_THAT(refusal(20, 9), HasSubstr("wrong_shape"));
}

TEST(FeatureDistances, AreMeanDifferencesOverPartsOfTheImages) {
  const Vgg network = Vgg::drawn({{4, 4}, {8}}, 7);
  const auto original = drawn_image(300, 140, 1);
  const auto other = drawn_image(300, 140, 2);
  const std::vector<double> distances = feature_distances({original, other, original}, network, 2);
  ASSERT_EQ(distances.size(), 3U);
  EXPECT_EQ(distances[0], 0);
  EXPECT_EQ(distances[2], 0);
  EXPECT_EQ(feature_distances({original, other, original}, network, 1), distances);
  // Two parts of 150 rows, each by itself.
  double sum = 0;
  int64_t count = 0;
  for (const int64_t top : {0, 150}) {
    std::vector<float> maps[2];
    for (const bool is_other : {false, true}) {
      const auto part = to_floats(cropped(is_other ? other : original, {.top = top, .height = 150, .width = 140}));
      ParameterLayout none;
      Arena arena;
      Tape<float> tape(arena);
      tape.begin(none, nullptr);
      const auto made = network.maps(tape, tape.constant(part.pixels.data(), {1, 150, 140, 3}));
      maps[is_other].assign(made.values, made.values + made.count());
    }
    for (size_t i = 0; i < maps[0].size(); ++i) sum += std::abs(double{maps[0][i]} - double{maps[1][i]});
    count += std::ssize(maps[0]);
  }
  EXPECT_NEAR(distances[1], sum / static_cast<double>(count), 1e-9);
  EXPECT_GT(distances[1], 0);
}

}  // namespace
}  // namespace millrace::quality_test

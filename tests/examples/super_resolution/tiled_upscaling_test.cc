#include "examples/super_resolution/tiled_upscaling.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "millrace/pipeline/worker_limit.h"
#include "tests/examples/super_resolution/small_pictures.h"
#include "tests/support/temporary_folder.h"

namespace millrace::tiled_upscaling_test {
namespace {

using test::drawn_image;

// Each pixel becomes 4 x 4 of the sum of those in a square around it, with zeros beyond the border: what lies outside
// of a tile matters as it does to a network.
Upscaler box_upscaler(int64_t radius) {
  return {.upscale =
              [radius](std::span<const float> pixels, int64_t height, int64_t width) {
                std::vector<float> result(static_cast<size_t>(16 * height * width * 3));
                for (int64_t y = 0; y < height; ++y) {
                  for (int64_t x = 0; x < width; ++x) {
                    for (int64_t c = 0; c < 3; ++c) {
                      float sum = 0;
                      for (int64_t v = std::max<int64_t>(0, y - radius); v <= std::min(height - 1, y + radius); ++v) {
                        for (int64_t u = std::max<int64_t>(0, x - radius); u <= std::min(width - 1, x + radius); ++u) {
                          sum += pixels[static_cast<size_t>((v * width + u) * 3 + c)] / 100;
                        }
                      }
                      for (int64_t i = 0; i < 16; ++i) {
                        const int64_t place = ((4 * y + i / 4) * 4 * width + 4 * x + i % 4) * 3 + c;
                        result[static_cast<size_t>(place)] = sum + static_cast<float>(i) / 50;
                      }
                    }
                  }
                }
                return result;
              },
          .radius = radius};
}

std::vector<float> tiled(const RgbImage<float>& image, const Upscaler& upscaler, const Tiling& tiling) {
  std::vector<float> result;
  EXPECT_TRUE(upscale_in_tiles(image, upscaler, tiling, [&](std::span<const float> rows) {
    EXPECT_EQ(std::ssize(rows) % (4 * image.width * 3), 0);
    EXPECT_LE(std::ssize(rows), 4 * tiling.tile * 4 * image.width * 3);
    result.insert(result.end(), rows.begin(), rows.end());
  }));
  return result;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    largest = std::max(largest, std::abs(double{a[i]} - double{b[i]}));
  return largest;
}

// Tiles of 16: smaller pictures, just one, one pixel more, not divisible.
const std::vector<std::pair<int64_t, int64_t>> kSizes = {{1, 1},   {1, 40},  {40, 1},  {5, 9},   {16, 16}, {17, 16},
                                                         {16, 17}, {31, 33}, {32, 48}, {50, 23}, {64, 65}};

TEST(UpscaleInTiles, IsWhatTheWholeImageGivesForAnySize) {
  for (const auto& [height, width] : kSizes) {
    const RgbImage<float> image = to_floats(drawn_image(height, width, 3));
    for (const int64_t radius : {0, 1, 5, 20}) {
      const Upscaler upscaler = box_upscaler(radius);
      const std::vector<float> whole = upscaler.upscale(image.pixels, height, width);
      EXPECT_EQ(tiled(image, upscaler, {.tile = 16, .threads = 2}), whole)
          << height << " x " << width << ", " << radius;
    }
  }
}

TEST(UpscaleInTiles, IsWhatAGeneratorGivesOfTheWholeImage) {
  const test::TemporaryFolder folder;
  test::write_generator(folder.path("model"), {.blocks = 1, .channels = 6, .growth = 4});
  const TrainedGenerator generator(folder.path("model"));
  const Upscaler upscaler = upscaler_of(generator);
  ASSERT_LE(upscaler.radius, Tiling().overlap);
  for (const auto& [height, width] : kSizes) {
    const RgbImage<float> image = to_floats(drawn_image(height, width, 4));
    const std::vector<float> whole = generator.upscale(image.pixels, height, width);
    EXPECT_LT(largest_difference(tiled(image, upscaler, {.tile = 16, .threads = 2}), whole), 1e-4)
        << height << " x " << width;
  }
  // What a smaller overlap costs is seen.
  const RgbImage<float> image = to_floats(drawn_image(50, 50, 4));
  const std::vector<float> whole = generator.upscale(image.pixels, 50, 50);
  EXPECT_GT(largest_difference(tiled(image, upscaler, {.tile = 16, .overlap = 0}), whole), 1e-3);
}

TEST(UpscaleInTiles, IsTheSameForAnyNumberOfThreads) {
  const WorkerLimit limit(8);
  const test::TemporaryFolder folder;
  test::write_generator(folder.path("model"), {.blocks = 1, .channels = 6, .growth = 4, .depthwise = true});
  const TrainedGenerator generator(folder.path("model"));
  const RgbImage<float> image = to_floats(drawn_image(70, 90, 5));
  const std::vector<float> one = tiled(image, upscaler_of(generator), {.tile = 16, .overlap = 8, .threads = 1});
  for (const int threads : {2, 8}) {
    EXPECT_TRUE(tiled(image, upscaler_of(generator), {.tile = 16, .overlap = 8, .threads = threads}) == one) << threads;
  }
}

TEST(UpscaleInTiles, StopsWhenItIsToldTo) {
  const RgbImage<float> image = to_floats(drawn_image(64, 64, 6));
  int64_t tiles = 0;
  int64_t rows_taken = 0;
  const Tiling tiling{.tile = 16,
                      .threads = 1,
                      .stop_requested = [&] { return tiles >= 5; },
                      .on_progress =
                          [&](int64_t done, int64_t all) {
                            EXPECT_EQ(done, ++tiles);
                            EXPECT_EQ(all, 16);
                          }};
  EXPECT_FALSE(upscale_in_tiles(image, box_upscaler(1), tiling, [&](std::span<const float>) { ++rows_taken; }));
  EXPECT_LT(tiles, 16);
  EXPECT_LT(rows_taken, 4);
}

TEST(UpscaleInTiles, PassesOnWhatTheUpscalerThrows) {
  const RgbImage<float> image = to_floats(drawn_image(64, 64, 6));
  const Upscaler failing{.upscale = [](std::span<const float>, int64_t, int64_t) -> std::vector<float> {
    throw ErrorException(ErrorCode::kIo, "no tile");
  }};
  EXPECT_THROW(upscale_in_tiles(image, failing, {.tile = 16, .threads = 2}, [](std::span<const float>) {}),
               ErrorException);
}

TEST(Upscaled, IsRoundedToBytes) {
  const RgbImage<float> image = to_floats(drawn_image(20, 30, 7));
  const Upscaler upscaler = box_upscaler(2);
  const RgbImage<uint8_t> made = upscaled(image, upscaler, {.tile = 16});
  EXPECT_EQ(made.height, 80);
  EXPECT_EQ(made.width, 120);
  const RgbImage<float> whole{.height = 80, .width = 120, .pixels = upscaler.upscale(image.pixels, 20, 30)};
  EXPECT_TRUE(made.pixels == to_bytes(whole).pixels);
}

}  // namespace
}  // namespace millrace::tiled_upscaling_test

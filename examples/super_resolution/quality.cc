#include "examples/super_resolution/quality.h"

#include <cmath>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/models/vgg.h"
#include "millrace/trainer/run/ordered_work.h"
#include "millrace/trainer/tensor/arena.h"
#include "millrace/trainer/tensor/tape.h"

namespace millrace {
namespace {

std::vector<double> luma_of(const RgbImage<uint8_t>& image) {
  std::vector<double> luma(image.pixels.size() / kColours);
  for (size_t i = 0; i < luma.size(); ++i) {
    const uint8_t* const pixel = image.pixels.data() + i * kColours;
    luma[i] = 16 + (65.481 * pixel[0] + 128.553 * pixel[1] + 24.966 * pixel[2]) / 255;
  }
  return luma;
}

template <typename T>
double psnr(const std::vector<T>& a, const std::vector<T>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += difference * difference;
  }
  return 10 * std::log10(255.0 * 255.0 * static_cast<double>(a.size()) / sum);
}

double mean_gradient(const std::vector<double>& luma, int64_t height, int64_t width) {
  double sum = 0;
  for (int64_t row = 0; row + 1 < height; ++row) {
    const double* const pixels = luma.data() + row * width;
    for (int64_t x = 0; x + 1 < width; ++x) sum += std::hypot(pixels[x + 1] - pixels[x], pixels[x + width] - pixels[x]);
  }
  return sum / static_cast<double>((height - 1) * (width - 1));
}

// A part of all images on its way through the work.
struct PartInFlight {
  ImageRegion region = {};
  std::vector<double> sums = {};  // by image
  int64_t count = 0;
};

void add_differences(const std::vector<RgbImage<uint8_t>>& images, const Vgg& network, PartInFlight& part) {
  ParameterLayout no_parameters;
  std::vector<float> original;
  part.sums.assign(images.size(), 0);
  for (size_t i = 0; i < images.size(); ++i) {
    const RgbImage<float> image = to_floats(cropped(images[i], part.region));
    Arena arena;
    Tape<float> tape(arena);
    tape.begin(no_parameters, nullptr);
    const auto maps = network.maps(tape, tape.constant(image.pixels.data(), {1, image.height, image.width, kColours}));
    if (i == 0) original.assign(maps.values, maps.values + maps.count());
    for (size_t k = 0; k < original.size(); ++k) part.sums[i] += std::abs(double{maps.values[k]} - double{original[k]});
  }
  part.count = std::ssize(original);
}

}  // namespace

ImageQuality quality_of(const RgbImage<uint8_t>& image, const RgbImage<uint8_t>& original) {
  const ImageRegion inside{kQualityBorder, kQualityBorder, image.height - 2 * kQualityBorder,
                           image.width - 2 * kQualityBorder};
  if (image.height != original.height || image.width != original.width || inside.height < 2 || inside.width < 2) {
    throw ErrorException(ErrorCode::kWrongShape,
                         fmt::format("an image of {} x {} pixels, measured by one of {} x {}", image.height,
                                     image.width, original.height, original.width));
  }
  const RgbImage<uint8_t> made = cropped(image, inside);
  const RgbImage<uint8_t> real = cropped(original, inside);
  const std::vector<double> luma = luma_of(made);
  return {.psnr_rgb = psnr(made.pixels, real.pixels),
          .psnr_y = psnr(luma, luma_of(real)),
          .gradient = mean_gradient(luma, inside.height, inside.width)};
}

std::vector<double> feature_distances(const std::vector<RgbImage<uint8_t>>& images, const Vgg& network, int threads) {
  constexpr int64_t kPart = 128;
  const int64_t height = images.front().height;
  const int64_t width = images.front().width;
  const int64_t down = std::max<int64_t>(1, height / kPart);
  const int64_t across = std::max<int64_t>(1, width / kPart);
  std::vector<double> distances(images.size());
  int64_t num_read = 0;
  int64_t count = 0;
  work_in_order<PartInFlight>(
      threads, nullptr,
      [&](PartInFlight& part) {
        if (num_read == down * across) return false;
        const int64_t row = num_read / across;
        const int64_t column = num_read++ % across;
        const int64_t top = height * row / down;
        const int64_t left = width * column / across;
        part.region = {top, left, height * (row + 1) / down - top, width * (column + 1) / across - left};
        return true;
      },
      [&](PartInFlight& part) { add_differences(images, network, part); },
      [&](PartInFlight& part) {
        for (size_t i = 0; i < distances.size(); ++i) distances[i] += part.sums[i];
        count += part.count;
      });
  for (double& distance : distances) distance /= static_cast<double>(count);
  return distances;
}

}  // namespace millrace

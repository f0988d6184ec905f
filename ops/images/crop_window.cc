#include "millrace/ops/images/crop_window.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/ops/images/image_features.h"

namespace millrace {
namespace {

// In [0, 1), of 32 bits.
double share_of(uint32_t word) { return std::ldexp(static_cast<double>(word), -32); }

int64_t rounded(double x) { return static_cast<int64_t>(std::nearbyint(x)); }

int64_t below(uint32_t word, int64_t limit) {
  return static_cast<int64_t>(uniform_below(uint64_t{word} << 32, static_cast<uint64_t>(limit)));
}

int64_t below(uint32_t low, uint32_t high, int64_t limit) {
  return static_cast<int64_t>(uniform_below(low | uint64_t{high} << 32, static_cast<uint64_t>(limit)));
}

ImageRegion in_the_centre(int64_t height, int64_t width, int64_t of_height, int64_t of_width) {
  return {(of_height - height) / 2, (of_width - width) / 2, height, width};
}

}  // namespace

CropWindow::CropWindow(const ImageCrop& crop, std::string_view method) : crop_(crop) {
  const auto refuse = [method](const std::string& why) {
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("{}: {}", method, why));
  };
  if (crop.kind == CropKind::kRandomResized) {
    if (crop.height || crop.width) refuse("random_resized has no height and width; resize comes after it");
  } else {
    if (!crop.height || !crop.width) refuse("centre and random need height and width");
    check_image_side(method, "height", *crop.height);
    check_image_side(method, "width", *crop.width);
  }
  const auto [least_area, most_area] = crop.area;
  if (!(least_area > 0 && least_area <= most_area && most_area <= 1)) {
    refuse(fmt::format("area is {} to {}, must rise from above 0 to at most 1", least_area, most_area));
  }
  const auto [least_ratio, most_ratio] = crop.ratio;
  if (!(least_ratio >= 1e-3 && least_ratio <= most_ratio && most_ratio <= 1e3)) {
    refuse(fmt::format("ratio is {} to {}, must rise from at least 0.001 to at most 1000", least_ratio, most_ratio));
  }
  if (crop.attempts < 0 || crop.attempts > 1000) {
    refuse(fmt::format("attempts is {}, must be from 0 to 1000", crop.attempts));
  }
  low_log_ratio_ = std::log(least_ratio);
  high_log_ratio_ = std::log(most_ratio);
}

std::optional<std::pair<int64_t, int64_t>> CropWindow::fixed_size() const {
  if (crop_.kind == CropKind::kRandomResized) return std::nullopt;
  return std::pair(*crop_.height, *crop_.width);
}

std::string CropWindow::why_not(int64_t height, int64_t width) const {
  if (crop_.kind == CropKind::kRandomResized || (height >= *crop_.height && width >= *crop_.width)) return "";
  return fmt::format("{} x {} pixels are smaller than the {} x {} to be kept", height, width, *crop_.height,
                     *crop_.width);
}

ImageRegion CropWindow::window(int64_t height, int64_t width, const CounterRng& rng, uint64_t row) const {
  if (crop_.kind == CropKind::kRandomResized) return random_resized(height, width, rng, row);
  if (crop_.kind == CropKind::kCentre) return in_the_centre(*crop_.height, *crop_.width, height, width);
  const CounterRng::Words words = rng.words(row);
  return {below(words[0], words[1], height - *crop_.height + 1), below(words[2], words[3], width - *crop_.width + 1),
          *crop_.height, *crop_.width};
}

// RandomResizedCrop.get_params of torchvision, with its rounding to even.
ImageRegion CropWindow::random_resized(int64_t height, int64_t width, const CounterRng& rng, uint64_t row) const {
  if (height == 0 || width == 0) return {0, 0, height, width};
  const double all = static_cast<double>(height) * static_cast<double>(width);
  const auto [least_area, most_area] = crop_.area;
  for (int64_t attempt = 0; attempt < crop_.attempts; ++attempt) {
    const CounterRng::Words words = rng.words(row, static_cast<uint64_t>(attempt));
    const double area = all * (least_area + (most_area - least_area) * share_of(words[0]));
    const double ratio = std::exp(low_log_ratio_ + (high_log_ratio_ - low_log_ratio_) * share_of(words[1]));
    const double on_grid = std::ldexp(std::round(std::ldexp(ratio, 24)), -24);
    const int64_t new_width = rounded(std::sqrt(area * on_grid));
    const int64_t new_height = rounded(std::sqrt(area / on_grid));
    if (new_width < 1 || new_width > width || new_height < 1 || new_height > height) continue;
    return {below(words[2], height - new_height + 1), below(words[3], width - new_width + 1), new_height, new_width};
  }
  const auto [least_ratio, most_ratio] = crop_.ratio;
  const double whole_ratio = static_cast<double>(width) / static_cast<double>(height);
  if (whole_ratio < least_ratio) {
    const int64_t fitting = rounded(static_cast<double>(width) / least_ratio);
    return in_the_centre(std::clamp(fitting, int64_t{1}, height), width, height, width);
  }
  if (whole_ratio > most_ratio) {
    const int64_t fitting = rounded(static_cast<double>(height) * most_ratio);
    return in_the_centre(height, std::clamp(fitting, int64_t{1}, width), height, width);
  }
  return {0, 0, height, width};
}

}  // namespace millrace

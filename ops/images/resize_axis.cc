#include "millrace/ops/images/resize_axis.h"

#include <algorithm>
#include <cmath>

namespace millrace {
namespace {

// Keys' kernel, a = -1/2, at a distance from 0 to 2.
template <typename T>
T keys_cubic(T x) {
  if (x >= 2) return 0;
  if (x >= 1) return ((T{-0.5} * x + T{2.5}) * x - 4) * x + 2;
  return ((T{1.5} * x - T{2.5}) * x) * x + 1;
}

// The steps of TensorFlow's table of bicubic weights, to which it rounds distances.
constexpr int kTableSize = 1024;

}  // namespace

ResizeAxis::ResizeAxis(BufferPool& pool, ResizeMethod method, bool antialias, int64_t from, int64_t to)
    : from_(from),
      first_(CountedAllocator<size_t>(pool)),
      pixel_(CountedAllocator<uint32_t>(pool)),
      weight_(CountedAllocator<float>(pool)) {
  first_.reserve(static_cast<size_t>(to) + 1);
  const size_t least_taps = method == ResizeMethod::kNearest ? 1 : 2;
  pixel_.reserve(least_taps * static_cast<size_t>(to));
  weight_.reserve(least_taps * static_cast<size_t>(to));
  first_.push_back(0);
  switch (method) {
    case ResizeMethod::kNearest: add_nearest(to); break;
    case ResizeMethod::kBilinear: antialias ? add_antialiased(method, to) : add_bilinear(to); break;
    case ResizeMethod::kBicubic: antialias ? add_antialiased(method, to) : add_bicubic(to); break;
    case ResizeMethod::kArea: add_area(to); break;
  }
}

void ResizeAxis::add_tap(int64_t pixel, float weight) {
  pixel_.push_back(static_cast<uint32_t>(std::clamp(pixel, int64_t{0}, from_ - 1)));
  weight_.push_back(weight);
}

void ResizeAxis::add_nearest(int64_t to) {
  taps_ = 1;
  const float scale = static_cast<float>(from_) / static_cast<float>(to);
  for (int64_t i = 0; i < to; ++i) {
    add_tap(static_cast<int64_t>(std::floor((static_cast<float>(i) + 0.5F) * scale)), 1);
    first_.push_back(pixel_.size());
  }
}

void ResizeAxis::add_bilinear(int64_t to) {
  taps_ = 2;
  const float scale = static_cast<float>(from_) / static_cast<float>(to);
  for (int64_t i = 0; i < to; ++i) {
    const float place = (static_cast<float>(i) + 0.5F) * scale - 0.5F;
    const float below = std::floor(place);
    const float rest = place - below;
    add_tap(static_cast<int64_t>(below), 1 - rest);
    add_tap(static_cast<int64_t>(std::ceil(place)), rest);
    first_.push_back(pixel_.size());
  }
}

void ResizeAxis::add_bicubic(int64_t to) {
  taps_ = 4;
  const float scale = static_cast<float>(from_) / static_cast<float>(to);
  for (int64_t i = 0; i < to; ++i) {
    const float place = (static_cast<float>(i) + 0.5F) * scale - 0.5F;
    const auto below = static_cast<int64_t>(std::floor(place));
    const auto rest = static_cast<double>(std::lrint((place - static_cast<float>(below)) * kTableSize)) / kTableSize;
    const double distances[] = {1 + rest, rest, 1 - rest, 2 - rest};
    float weights[4];
    float sum = 0;
    for (int t = 0; t < 4; ++t) {
      const int64_t pixel = below - 1 + t;
      weights[t] = pixel >= 0 && pixel < from_ ? static_cast<float>(keys_cubic(distances[t])) : 0;
      sum += weights[t];
    }
    for (int t = 0; t < 4; ++t) add_tap(below - 1 + t, weights[t] / sum);
    first_.push_back(pixel_.size());
  }
}

void ResizeAxis::add_area(int64_t to) {
  const float scale = static_cast<float>(from_) / static_cast<float>(to);
  for (int64_t i = 0; i < to; ++i) {
    const float begin = static_cast<float>(i) * scale;
    const float end = static_cast<float>(i + 1) * scale;
    const auto last = static_cast<int64_t>(std::ceil(end));
    for (auto pixel = static_cast<int64_t>(std::floor(begin)); pixel < last; ++pixel) {
      const auto left = static_cast<float>(pixel);
      // All within one pixel is `scale`, of which `end - begin` may be off by the rounding of both.
      const float ends_before = left + 1 > end ? scale : left + 1 - begin;
      const float begins_before = left + 1 > end ? end - left : 1;
      add_tap(pixel, (left < begin ? ends_before : begins_before) / scale);
    }
    first_.push_back(pixel_.size());
  }
}

void ResizeAxis::add_antialiased(ResizeMethod method, int64_t to) {
  const float scale = static_cast<float>(to) / static_cast<float>(from_);
  const auto inverse = static_cast<float>(1.0 / static_cast<double>(scale));
  const float widened = std::max(inverse, 1.0F);
  const float radius = (method == ResizeMethod::kBilinear ? 1.0F : 2.0F) * widened;
  for (int64_t i = 0; i < to; ++i) {
    const float centre = std::min((static_cast<float>(i) + 0.5F) * inverse, static_cast<float>(from_));
    const auto begin = std::clamp(static_cast<int64_t>(std::ceil(centre - radius - 0.5F)), int64_t{0}, from_ - 1);
    const auto end = std::clamp(static_cast<int64_t>(std::floor(centre + radius - 0.5F)), int64_t{0}, from_ - 1) + 1;
    float sum = 0;
    for (int64_t pixel = begin; pixel < end; ++pixel) {
      const float distance = std::abs((static_cast<float>(pixel) + 0.5F - centre) / widened);
      add_tap(pixel, method == ResizeMethod::kBilinear ? std::max(0.0F, 1 - distance) : keys_cubic(distance));
      sum += weight_.back();
    }
    for (size_t tap = first_.back(); tap < weight_.size(); ++tap) weight_[tap] /= sum;
    first_.push_back(pixel_.size());
  }
}

}  // namespace millrace

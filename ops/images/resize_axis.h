#pragma once

#include <cstddef>
#include <cstdint>

#include "millrace/formats/columnar/counted_allocator.h"
#include "millrace/ops/description.h"

namespace millrace {

/// How `resize` makes pixels of an image of another size: as the method of this name of tf.image.resize (TensorFlow 2).
enum class ResizeMethod : uint8_t {
  kNearest,   ///< the pixel in which the centre of the new one lies
  kBilinear,  ///< two pixels of each axis, by distance
  kBicubic,   ///< four pixels of each axis (Keys, "Cubic convolution interpolation", 1981, with a = -1/2)
  kArea,      ///< the mean of what the new pixel covers
};

constexpr auto names_of(const ResizeMethod*) {
  return enum_names("ResizeMethod", "NEAREST", "BILINEAR", "BICUBIC", "AREA");
}

/// Of which pixels of an axis each new one is the weighted sum: of pixel(first(i)) … pixel(first(i + 1) - 1). In
/// float32, with the operations of TensorFlow's kernels (tensorflow/core/kernels/image/resize_*_op.cc, and
/// scale_and_translate_op.cc with antialiasing).
class ResizeAxis {
 public:
  /// An axis of `from` pixels as one of `to`, each at least 1 and below 2^31. `antialias`: bilinear and bicubic kernels
  /// are widened where the axis becomes shorter. The memory is `pool`'s, which must outlive it.
  ResizeAxis(BufferPool& pool, ResizeMethod method, bool antialias, int64_t from, int64_t to);

  int64_t from() const { return from_; }
  /// New pixels.
  size_t size() const { return first_.size() - 1; }
  size_t first(size_t i) const { return first_[i]; }
  uint32_t pixel(size_t tap) const { return pixel_[tap]; }
  const uint32_t* pixels() const { return pixel_.data(); }
  const float* weights() const { return weight_.data(); }
  /// Of how many pixels each new one is the sum; 0: it differs.
  size_t taps() const { return taps_; }

 private:
  void add_nearest(int64_t to);
  void add_bilinear(int64_t to);
  void add_bicubic(int64_t to);
  void add_area(int64_t to);
  void add_antialiased(ResizeMethod method, int64_t to);
  // Of the pixel that is being added; a place beyond the border is the last one before it.
  void add_tap(int64_t pixel, float weight);

  int64_t from_;
  size_t taps_ = 0;
  CountedVector<size_t> first_;
  CountedVector<uint32_t> pixel_;
  CountedVector<float> weight_;
};

}  // namespace millrace

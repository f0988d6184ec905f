#pragma once

#include <cstddef>
#include <cstdint>

#include "millrace/formats/columnar/counted_allocator.h"
#include "millrace/ops/images/resize_axis.h"

namespace millrace {

/// Makes images [height,width,channels] of one size ones of another: first of the rows that a new row is made of, with
/// the widest instructions of the machine, a row of sums, then of that the pixels. The values are the same on every
/// machine: nothing is contracted to fused multiply-add. One thread uses it.
class ResizeKernel {
 public:
  /// From `from` to `to` pixels; sides of at least 1 and below 2^31. `pool` must outlive it.
  ResizeKernel(BufferPool& pool, ResizeMethod method, bool antialias, int64_t from_height, int64_t from_width,
               int64_t to_height, int64_t to_width);

  /// Whether it is made for these sizes.
  bool fits(int64_t from_height, int64_t from_width, int64_t to_height, int64_t to_width) const;
  /// The weighted sums, for all methods but `kNearest`.
  void resize(const uint8_t* from, size_t channels, float* to);
  void resize(const int32_t* from, size_t channels, float* to);
  void resize(const float* from, size_t channels, float* to);
  /// Copies pixels of so many bytes: `kNearest`.
  void copy_nearest(const std::byte* from, size_t pixel_bytes, std::byte* to) const;

 private:
  // Space for a row of sums.
  float* row_of(size_t channels);

  ResizeAxis rows_;
  ResizeAxis columns_;
  CountedVector<float> row_;
};

}  // namespace millrace

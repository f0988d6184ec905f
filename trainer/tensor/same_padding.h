#pragma once

#include <cstdint>

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// The patches that a convolution with TensorFlow's "SAME" padding reads, for images `[images, height, width,
/// channels]`: output sizes are `ceil(size / stride)`; of the `max((output - 1) stride + kernel - size, 0)` rows or
/// columns of zeros half, rounded down, lie before the image.
struct SamePatches {
  int64_t height = 0, width = 0, channels = 0;
  int64_t kernel_height = 0, kernel_width = 0;
  int64_t stride = 1;

  int64_t output_height() const { return (height + stride - 1) / stride; }
  int64_t output_width() const { return (width + stride - 1) / stride; }
  /// Patches of an image.
  int64_t count() const { return output_height() * output_width(); }
  /// Values of a patch: kernel_height * kernel_width * channels.
  int64_t size() const { return kernel_height * kernel_width * channels; }
  int64_t image_size() const { return height * width * channels; }

  /// Calls `body(patch, tap, pixel)` for each patch of an image and each place of the kernel that lies on the image:
  /// the patch's number, the place's number (row by row), the pixel's number.
  template <typename Body>
  void for_each(const Body& body) const {
    const auto before = [&](int64_t output, int64_t kernel, int64_t input) {
      const int64_t total = (output - 1) * stride + kernel - input;
      return total > 0 ? total / 2 : 0;
    };
    const int64_t top = before(output_height(), kernel_height, height);
    const int64_t left = before(output_width(), kernel_width, width);
    for (int64_t out_y = 0; out_y < output_height(); ++out_y) {
      for (int64_t out_x = 0; out_x < output_width(); ++out_x) {
        for (int64_t ky = 0; ky < kernel_height; ++ky) {
          const int64_t y = out_y * stride + ky - top;
          if (y < 0 || y >= height) continue;
          for (int64_t kx = 0; kx < kernel_width; ++kx) {
            const int64_t x = out_x * stride + kx - left;
            if (x < 0 || x >= width) continue;
            body(out_y * output_width() + out_x, ky * kernel_width + kx, y * width + x);
          }
        }
      }
    }
  }
};

/// The patches of images `x` `[images, height, width, channels]` under a kernel `[height, width, channels, ...]` of
/// `kernel_rank` sizes. `name`: the operator, for messages. Throws `kWrongShape` when they do not fit,
/// `kInvalidArgument` for a stride below 1.
SamePatches same_patches(const char* name, const TensorShape& x, const TensorShape& kernel, size_t kernel_rank,
                         int64_t stride);

/// Copies an image's patches to `patches`, `[count, size]`, zeros where they leave the image ("im2col").
template <typename T>
void read_patches(const SamePatches& geometry, const T* image, T* patches);
/// Adds patches to the image they come from, the transpose of `read_patches` ("col2im").
template <typename T>
void add_patches(const SamePatches& geometry, const T* patches, T* image);

}  // namespace millrace

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

  /// Rows or columns of zeros around the image.
  int64_t padding_height() const { return padding(output_height(), kernel_height, height); }
  int64_t padding_width() const { return padding(output_width(), kernel_width, width); }
  /// Those of them that lie before it.
  int64_t top() const { return padding_height() / 2; }
  int64_t left() const { return padding_width() / 2; }

  /// Calls `body(patch, tap, pixel)` for each of the patches `first` to `first + num - 1` of an image and each place of
  /// the kernel that lies on the image: the patch's number, the place's number (row by row), the pixel's number.
  template <typename Body>
  void for_each(int64_t first, int64_t num, const Body& body) const {
    const int64_t before_y = top();
    const int64_t before_x = left();
    for (int64_t patch = first; patch < first + num; ++patch) {
      const int64_t first_y = patch / output_width() * stride - before_y;
      const int64_t first_x = patch % output_width() * stride - before_x;
      for (int64_t ky = 0; ky < kernel_height; ++ky) {
        const int64_t y = first_y + ky;
        if (y < 0 || y >= height) continue;
        for (int64_t kx = 0; kx < kernel_width; ++kx) {
          const int64_t x = first_x + kx;
          if (x < 0 || x >= width) continue;
          body(patch, ky * kernel_width + kx, y * width + x);
        }
      }
    }
  }

 private:
  int64_t padding(int64_t output, int64_t kernel, int64_t input) const {
    const int64_t total = (output - 1) * stride + kernel - input;
    return total > 0 ? total : 0;
  }
};

/// The patches of images `x` `[images, height, width, channels]` under a kernel `[height, width, channels, ...]` of
/// `kernel_rank` sizes. `name`: the operator, for messages. Throws `kWrongShape` when they do not fit,
/// `kInvalidArgument` for a stride below 1.
SamePatches same_patches(const char* name, const TensorShape& x, const TensorShape& kernel, size_t kernel_rank,
                         int64_t stride);

/// Copies `num` of an image's patches from `first` on to `patches`, `[num, size]`, zeros where they leave the image
/// ("im2col").
template <typename T>
void read_patches(const SamePatches& geometry, const T* image, int64_t first, int64_t num, T* patches);
/// Adds these patches to the image they come from, the transpose of `read_patches` ("col2im").
template <typename T>
void add_patches(const SamePatches& geometry, const T* patches, int64_t first, int64_t num, T* image);

}  // namespace millrace

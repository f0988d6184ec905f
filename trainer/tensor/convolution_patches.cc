#include "millrace/trainer/tensor/convolution_patches.h"

#include <algorithm>

#include "millrace/trainer/tensor/gemm.h"
#include "millrace/trainer/tensor/kernels.h"

namespace millrace {
namespace {

// Of the patches that are multiplied at once: they are written and read again, so they should stay in the second cache.
constexpr int64_t kTileBytes = 256 << 10;
constexpr int64_t kLeastTileRows = 16;

/// Calls `body(image, first, num, patches)` for the patches of all images, tile by tile, with memory for them.
template <typename T, typename Body>
void for_each_tile(const Convolution& sizes, Arena& arena, const Body& body) {
  const int64_t count = sizes.patches.count();
  const int64_t fitting = kTileBytes / (std::max<int64_t>(1, sizes.patches.size()) * static_cast<int64_t>(sizeof(T)));
  const int64_t rows = std::min(count, std::max(kLeastTileRows, fitting));
  T* patches = arena.allocate<T>(rows * sizes.patches.size());
  for (int64_t image = 0; image < sizes.images; ++image) {
    for (int64_t first = 0; first < count; first += rows) body(image, first, std::min(rows, count - first), patches);
  }
  arena.release(patches, rows * sizes.patches.size());
}

/// Calls `body(input, tap, output)` with the places of the first channel of each pair of pixels that a depthwise
/// convolution multiplies, and of the kernel's values between them.
template <typename Body>
void for_each_depthwise(const Convolution& sizes, const Body& body) {
  const int64_t channels = sizes.patches.channels;
  for (int64_t image = 0; image < sizes.images; ++image) {
    const int64_t input = image * sizes.patches.image_size();
    const int64_t output = image * sizes.patches.count() * channels;
    sizes.patches.for_each(0, sizes.patches.count(), [&](int64_t patch, int64_t tap, int64_t pixel) {
      body(input + pixel * channels, tap * channels, output + patch * channels);
    });
  }
}

template <typename T>
void convolve_patches(const Convolution& sizes, const T* x, const T* kernel, T* y, Arena& arena) {
  const SamePatches& geometry = sizes.patches;
  for_each_tile<T>(sizes, arena, [&](int64_t image, int64_t first, int64_t num, T* patches) {
    read_patches(geometry, x + image * geometry.image_size(), first, num, patches);
    gemm<T>(Transposed::kNo, Transposed::kNo, num, sizes.out, geometry.size(), 1, patches, geometry.size(), kernel,
            sizes.out, 0, y + (image * geometry.count() + first) * sizes.out, sizes.out);
  });
}

template <typename T>
void input_gradient_of_patches(const Convolution& sizes, const T* dy, const T* kernel, T* dx, Arena& arena) {
  const SamePatches& geometry = sizes.patches;
  for_each_tile<T>(sizes, arena, [&](int64_t image, int64_t first, int64_t num, T* patches) {
    gemm<T>(Transposed::kNo, Transposed::kYes, num, geometry.size(), sizes.out, 1,
            dy + (image * geometry.count() + first) * sizes.out, sizes.out, kernel, sizes.out, 0, patches,
            geometry.size());
    add_patches(geometry, static_cast<const T*>(patches), first, num, dx + image * geometry.image_size());
  });
}

template <typename T>
void kernel_gradient_of_patches(const Convolution& sizes, const T* x, const T* dy, T* dkernel, Arena& arena) {
  const SamePatches& geometry = sizes.patches;
  for_each_tile<T>(sizes, arena, [&](int64_t image, int64_t first, int64_t num, T* patches) {
    read_patches(geometry, x + image * geometry.image_size(), first, num, patches);
    gemm<T>(Transposed::kYes, Transposed::kNo, geometry.size(), sizes.out, num, 1, patches, geometry.size(),
            dy + (image * geometry.count() + first) * sizes.out, sizes.out, 1, dkernel, sizes.out);
  });
}

}  // namespace

template <typename T>
void convolve_by_patches(const Convolution& sizes, const T* x, const T* kernel, T* y, Arena& arena) {
  if (sizes.output_count() == 0) return;
  if (!sizes.depthwise) return convolve_patches(sizes, x, kernel, y, arena);
  std::fill_n(y, sizes.output_count(), T{0});
  for_each_depthwise(sizes, [&](int64_t input, int64_t tap, int64_t output) {
    kernels<T>().multiply(x + input, kernel + tap, sizes.out, true, y + output);
  });
}

template <typename T>
void input_gradient_by_patches(const Convolution& sizes, const T* dy, const T* kernel, bool add, T* dx, Arena& arena) {
  if (!add) std::fill_n(dx, sizes.input_count(), T{0});
  if (sizes.output_count() == 0) return;
  if (!sizes.depthwise) return input_gradient_of_patches(sizes, dy, kernel, dx, arena);
  for_each_depthwise(sizes, [&](int64_t input, int64_t tap, int64_t output) {
    kernels<T>().multiply(dy + output, kernel + tap, sizes.out, true, dx + input);
  });
}

template <typename T>
void kernel_gradient_by_patches(const Convolution& sizes, const T* x, const T* dy, bool add, T* dkernel, Arena& arena) {
  if (!add) std::fill_n(dkernel, sizes.kernel_count(), T{0});
  if (sizes.output_count() == 0) return;
  if (!sizes.depthwise) return kernel_gradient_of_patches(sizes, x, dy, dkernel, arena);
  for_each_depthwise(sizes, [&](int64_t input, int64_t tap, int64_t output) {
    kernels<T>().multiply(dy + output, x + input, sizes.out, true, dkernel + tap);
  });
}

template void convolve_by_patches(const Convolution&, const float*, const float*, float*, Arena&);
template void convolve_by_patches(const Convolution&, const double*, const double*, double*, Arena&);
template void input_gradient_by_patches(const Convolution&, const float*, const float*, bool, float*, Arena&);
template void input_gradient_by_patches(const Convolution&, const double*, const double*, bool, double*, Arena&);
template void kernel_gradient_by_patches(const Convolution&, const float*, const float*, bool, float*, Arena&);
template void kernel_gradient_by_patches(const Convolution&, const double*, const double*, bool, double*, Arena&);

}  // namespace millrace

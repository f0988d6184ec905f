#include "millrace/trainer/tensor/same_padding.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/tensor/kernels.h"

namespace millrace {

SamePatches same_patches(const char* name, const TensorShape& x, const TensorShape& kernel, size_t kernel_rank,
                         int64_t stride) {
  const std::span<const int64_t> in = x.sizes();
  const std::span<const int64_t> taps = kernel.sizes();
  if (in.size() != 4 || taps.size() != kernel_rank || in[3] != taps[2]) {
    throw ErrorException(ErrorCode::kWrongShape, fmt::format("{} of [{}] with a kernel of [{}]", name,
                                                             fmt::join(in, ", "), fmt::join(taps, ", ")));
  }
  if (stride < 1) {
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("{} with a stride of {}", name, stride));
  }
  return {.height = in[1],
          .width = in[2],
          .channels = in[3],
          .kernel_height = taps[0],
          .kernel_width = taps[1],
          .stride = stride};
}

template <typename T>
void read_patches(const SamePatches& geometry, const T* image, int64_t first, int64_t num, T* patches) {
  const int64_t channels = geometry.channels;
  std::fill_n(patches, num * geometry.size(), T{0});
  geometry.for_each(first, num, [&](int64_t patch, int64_t tap, int64_t pixel) {
    std::copy_n(image + pixel * channels, channels, patches + (patch - first) * geometry.size() + tap * channels);
  });
}

template <typename T>
void add_patches(const SamePatches& geometry, const T* patches, int64_t first, int64_t num, T* image) {
  const int64_t channels = geometry.channels;
  geometry.for_each(first, num, [&](int64_t patch, int64_t tap, int64_t pixel) {
    const T* values = patches + (patch - first) * geometry.size() + tap * channels;
    kernels<T>().add(values, channels, image + pixel * channels);
  });
}

template void read_patches(const SamePatches&, const float*, int64_t, int64_t, float*);
template void read_patches(const SamePatches&, const double*, int64_t, int64_t, double*);
template void add_patches(const SamePatches&, const float*, int64_t, int64_t, float*);
template void add_patches(const SamePatches&, const double*, int64_t, int64_t, double*);

}  // namespace millrace

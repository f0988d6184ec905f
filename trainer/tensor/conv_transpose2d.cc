#include "millrace/trainer/tensor/conv_transpose2d.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/tensor/gemm.h"
#include "millrace/trainer/tensor/same_padding.h"

namespace millrace {

template <typename T>
Tensor<T> conv_transpose2d(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& kernel, int64_t stride) {
  const std::span<const int64_t> in = x.shape.sizes();
  const std::span<const int64_t> taps = kernel.shape.sizes();
  if (in.size() != 4 || taps.size() != 4 || in[3] != taps[3]) {
    throw ErrorException(ErrorCode::kWrongShape, fmt::format("conv_transpose2d of [{}] with a kernel of [{}]",
                                                             fmt::join(in, ", "), fmt::join(taps, ", ")));
  }
  if (stride < 1) {
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("conv_transpose2d with a stride of {}", stride));
  }
  // Of the convolution that goes the other way.
  const SamePatches geometry{.height = in[1] * stride,
                             .width = in[2] * stride,
                             .channels = taps[2],
                             .kernel_height = taps[0],
                             .kernel_width = taps[1],
                             .stride = stride};
  const int64_t images = in[0];
  const int64_t channels = in[3];
  const int64_t rows = geometry.count();
  const int64_t size = geometry.size();
  const Tensor<T> y = tape.make({images, geometry.height, geometry.width, geometry.channels});
  std::fill_n(y.values, y.count(), T{0});
  T* patches = tape.arena().template allocate<T>(rows * size);
  for (int64_t i = 0; i < images; ++i) {
    gemm<T>(Transposed::kNo, Transposed::kYes, rows, size, channels, 1, x.values + i * rows * channels, channels,
            kernel.values, channels, 0, patches, size);
    add_patches(geometry, static_cast<const T*>(patches), y.values + i * geometry.image_size());
  }
  tape.arena().release(patches, rows * size);
  tape.record({x, kernel}, y, [=](Tape<T>& t, const T* dy) {
    const bool wants_x = t.wants(x);
    const bool wants_kernel = t.wants(kernel);
    const GradientSlot<T> dx = wants_x ? t.gradient_of(x) : GradientSlot<T>{};
    const GradientSlot<T> dkernel = wants_kernel ? t.gradient_of(kernel) : GradientSlot<T>{};
    if (images == 0 && wants_kernel && !dkernel.add) std::fill_n(dkernel.values, kernel.count(), T{0});
    T* read = t.arena().template allocate<T>(rows * size);
    for (int64_t i = 0; i < images; ++i) {
      read_patches(geometry, dy + i * geometry.image_size(), read);
      if (wants_x) {
        gemm<T>(Transposed::kNo, Transposed::kNo, rows, channels, size, 1, read, size, kernel.values, channels,
                dx.beta(), dx.values + i * rows * channels, channels);
      }
      if (wants_kernel) {
        gemm<T>(Transposed::kYes, Transposed::kNo, size, channels, rows, 1, read, size, x.values + i * rows * channels,
                channels, i == 0 ? dkernel.beta() : 1, dkernel.values, channels);
      }
    }
    t.arena().release(read, rows * size);
  });
  return y;
}

template Tensor<float> conv_transpose2d(Tape<float>&, const Tensor<float>&, const Tensor<float>&, int64_t);
template Tensor<double> conv_transpose2d(Tape<double>&, const Tensor<double>&, const Tensor<double>&, int64_t);

}  // namespace millrace

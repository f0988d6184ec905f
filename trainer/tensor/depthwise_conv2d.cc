#include "trainer/tensor/depthwise_conv2d.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "formats/error.h"
#include "trainer/tensor/kernels.h"
#include "trainer/tensor/same_padding.h"

namespace millrace {

template <typename T>
Tensor<T> depthwise_conv2d(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& kernel, int64_t stride) {
  const std::span<const int64_t> in = x.shape.sizes();
  const std::span<const int64_t> taps = kernel.shape.sizes();
  if (in.size() != 4 || taps.size() != 3 || in[3] != taps[2]) {
    throw ErrorException(ErrorCode::kWrongShape, fmt::format("depthwise_conv2d of [{}] with a kernel of [{}]",
                                                             fmt::join(in, ", "), fmt::join(taps, ", ")));
  }
  if (stride < 1) {
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("depthwise_conv2d with a stride of {}", stride));
  }
  const SamePatches geometry{.height = in[1],
                             .width = in[2],
                             .channels = in[3],
                             .kernel_height = taps[0],
                             .kernel_width = taps[1],
                             .stride = stride};
  const int64_t channels = in[3];
  const int64_t images = in[0];
  const int64_t output_size = geometry.count() * channels;
  const Tensor<T> y = tape.make({images, geometry.output_height(), geometry.output_width(), channels});
  std::fill_n(y.values, y.count(), T{0});
  for (int64_t i = 0; i < images; ++i) {
    geometry.for_each([&](int64_t patch, int64_t tap, int64_t pixel) {
      kernels<T>().multiply(x.values + i * geometry.image_size() + pixel * channels, kernel.values + tap * channels,
                            channels, true, y.values + i * output_size + patch * channels);
    });
  }
  tape.record({x, kernel}, y, [=](Tape<T>& t, const T* dy) {
    const auto slot_of = [&](const Tensor<T>& input) {
      const GradientSlot<T> slot = t.wants(input) ? t.gradient_of(input) : GradientSlot<T>{};
      if (slot.values != nullptr && !slot.add) std::fill_n(slot.values, input.count(), T{0});
      return slot.values;
    };
    T* dx = slot_of(x);
    T* dkernel = slot_of(kernel);
    for (int64_t i = 0; i < images; ++i) {
      geometry.for_each([&](int64_t patch, int64_t tap, int64_t pixel) {
        const T* dy_patch = dy + i * output_size + patch * channels;
        const int64_t at = i * geometry.image_size() + pixel * channels;
        if (dx != nullptr) kernels<T>().multiply(dy_patch, kernel.values + tap * channels, channels, true, dx + at);
        if (dkernel != nullptr) {
          kernels<T>().multiply(dy_patch, x.values + at, channels, true, dkernel + tap * channels);
        }
      });
    }
  });
  return y;
}

template Tensor<float> depthwise_conv2d(Tape<float>&, const Tensor<float>&, const Tensor<float>&, int64_t);
template Tensor<double> depthwise_conv2d(Tape<double>&, const Tensor<double>&, const Tensor<double>&, int64_t);

}  // namespace millrace

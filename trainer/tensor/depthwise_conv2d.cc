#include "millrace/trainer/tensor/depthwise_conv2d.h"

#include <algorithm>

#include "millrace/trainer/tensor/kernels.h"
#include "millrace/trainer/tensor/same_padding.h"

namespace millrace {

template <typename T>
Tensor<T> depthwise_conv2d(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& kernel, int64_t stride) {
  const SamePatches geometry = same_patches("depthwise_conv2d", x.shape, kernel.shape, 3, stride);
  const int64_t channels = geometry.channels;
  const int64_t images = x.shape.sizes()[0];
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

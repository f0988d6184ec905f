#include "millrace/trainer/tensor/conv_transpose2d.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/tensor/convolution.h"
#include "millrace/trainer/tensor/kernels.h"

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
  // The convolution that goes the other way: its input's gradient is this one's output.
  const Convolution sizes{.patches = {.height = in[1] * stride,
                                      .width = in[2] * stride,
                                      .channels = taps[2],
                                      .kernel_height = taps[0],
                                      .kernel_width = taps[1],
                                      .stride = stride},
                          .images = in[0],
                          .out = in[3]};
  const Tensor<T> y = tape.make({in[0], sizes.patches.height, sizes.patches.width, taps[2]});
  convolution_input_gradient<T>(sizes, x.values, kernel.values, false, y.values, tape.arena());
  tape.record({x, kernel}, y, [=](Tape<T>& t, const T* dy) {
    if (t.wants(x)) {
      const GradientSlot<T> slot = t.gradient_of(x);
      T* values = slot.add ? t.arena().template allocate<T>(x.count()) : slot.values;
      convolve<T>(sizes, dy, kernel.values, values, t.arena());
      if (slot.add) {
        kernels<T>().add(values, x.count(), slot.values);
        t.arena().release(values, x.count());
      }
    }
    if (t.wants(kernel)) {
      const GradientSlot<T> slot = t.gradient_of(kernel);
      convolution_kernel_gradient<T>(sizes, dy, x.values, slot.add, slot.values, t.arena());
    }
  });
  return y;
}

template Tensor<float> conv_transpose2d(Tape<float>&, const Tensor<float>&, const Tensor<float>&, int64_t);
template Tensor<double> conv_transpose2d(Tape<double>&, const Tensor<double>&, const Tensor<double>&, int64_t);

}  // namespace millrace

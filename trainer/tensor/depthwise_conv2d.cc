#include "millrace/trainer/tensor/depthwise_conv2d.h"

#include "millrace/trainer/tensor/convolution.h"

namespace millrace {

template <typename T>
Tensor<T> depthwise_conv2d(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& kernel, int64_t stride) {
  return convolution_on_tape(tape, x, kernel,
                             {.patches = same_patches("depthwise_conv2d", x.shape, kernel.shape, 3, stride),
                              .images = x.shape.sizes()[0],
                              .out = x.columns(),
                              .depthwise = true});
}

template Tensor<float> depthwise_conv2d(Tape<float>&, const Tensor<float>&, const Tensor<float>&, int64_t);
template Tensor<double> depthwise_conv2d(Tape<double>&, const Tensor<double>&, const Tensor<double>&, int64_t);

}  // namespace millrace

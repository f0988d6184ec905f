#include "millrace/trainer/tensor/conv2d.h"

#include "millrace/trainer/tensor/convolution.h"

namespace millrace {

template <typename T>
Tensor<T> conv2d(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& kernel, int64_t stride) {
  return convolution_on_tape(tape, x, kernel,
                             {.patches = same_patches("conv2d", x.shape, kernel.shape, 4, stride),
                              .images = x.shape.sizes()[0],
                              .out = kernel.columns()});
}

template Tensor<float> conv2d(Tape<float>&, const Tensor<float>&, const Tensor<float>&, int64_t);
template Tensor<double> conv2d(Tape<double>&, const Tensor<double>&, const Tensor<double>&, int64_t);

}  // namespace millrace

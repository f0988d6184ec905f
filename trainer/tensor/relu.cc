#include "millrace/trainer/tensor/relu.h"

#include "millrace/trainer/tensor/kernels.h"
#include "millrace/trainer/tensor/pointwise.h"

namespace millrace {

template <typename T>
Tensor<T> leaky_relu(Tape<T>& tape, const Tensor<T>& x, double slope) {
  return pointwise(
      tape, x, [=](const T* v, int64_t n, T* y) { kernels<T>().relu(v, static_cast<T>(slope), n, y); },
      [=](const T* v, const T*, const T* dy, int64_t n, bool add, T* dx) {
        kernels<T>().relu_backward(v, static_cast<T>(slope), dy, n, add, dx);
      });
}

template <typename T>
Tensor<T> relu(Tape<T>& tape, const Tensor<T>& x) {
  return leaky_relu(tape, x, 0);
}

template Tensor<float> relu(Tape<float>&, const Tensor<float>&);
template Tensor<double> relu(Tape<double>&, const Tensor<double>&);
template Tensor<float> leaky_relu(Tape<float>&, const Tensor<float>&, double);
template Tensor<double> leaky_relu(Tape<double>&, const Tensor<double>&, double);

}  // namespace millrace

#include "millrace/trainer/tensor/gelu.h"

#include "millrace/trainer/tensor/kernels.h"
#include "millrace/trainer/tensor/pointwise.h"

namespace millrace {

template <typename T>
Tensor<T> gelu(Tape<T>& tape, const Tensor<T>& x) {
  return pointwise(
      tape, x, [](const T* v, int64_t n, T* y) { kernels<T>().gelu(v, n, y); },
      [](const T* v, const T*, const T* dy, int64_t n, bool add, T* dx) {
        kernels<T>().gelu_backward(v, dy, n, add, dx);
      });
}

template <typename T>
Tensor<T> gelu_tanh(Tape<T>& tape, const Tensor<T>& x) {
  return pointwise(
      tape, x, [](const T* v, int64_t n, T* y) { kernels<T>().gelu_tanh(v, n, y); },
      [](const T* v, const T*, const T* dy, int64_t n, bool add, T* dx) {
        kernels<T>().gelu_tanh_backward(v, dy, n, add, dx);
      });
}

template Tensor<float> gelu(Tape<float>&, const Tensor<float>&);
template Tensor<double> gelu(Tape<double>&, const Tensor<double>&);
template Tensor<float> gelu_tanh(Tape<float>&, const Tensor<float>&);
template Tensor<double> gelu_tanh(Tape<double>&, const Tensor<double>&);

}  // namespace millrace

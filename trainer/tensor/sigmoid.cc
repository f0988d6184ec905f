#include "millrace/trainer/tensor/sigmoid.h"

#include "millrace/trainer/tensor/kernels.h"
#include "millrace/trainer/tensor/pointwise.h"

namespace millrace {

template <typename T>
Tensor<T> sigmoid(Tape<T>& tape, const Tensor<T>& x) {
  return pointwise(
      tape, x, [](const T* v, int64_t n, T* y) { kernels<T>().sigmoid(v, n, y); },
      [](const T*, const T* v, const T* dy, int64_t n, bool add, T* dx) {
        kernels<T>().sigmoid_backward(v, dy, n, add, dx);
      });
}

template Tensor<float> sigmoid(Tape<float>&, const Tensor<float>&);
template Tensor<double> sigmoid(Tape<double>&, const Tensor<double>&);

}  // namespace millrace

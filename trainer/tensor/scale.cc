#include "millrace/trainer/tensor/scale.h"

#include "millrace/trainer/tensor/kernels.h"
#include "millrace/trainer/tensor/pointwise.h"

namespace millrace {

template <typename T>
Tensor<T> scale(Tape<T>& tape, const Tensor<T>& x, double factor) {
  const T by = static_cast<T>(factor);
  return pointwise(
      tape, x, [=](const T* v, int64_t n, T* y) { kernels<T>().scale(v, by, n, false, y); },
      [=](const T*, const T*, const T* dy, int64_t n, bool add, T* dx) { kernels<T>().scale(dy, by, n, add, dx); });
}

template Tensor<float> scale(Tape<float>&, const Tensor<float>&, double);
template Tensor<double> scale(Tape<double>&, const Tensor<double>&, double);

}  // namespace millrace

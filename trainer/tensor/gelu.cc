#include "trainer/tensor/gelu.h"

#include "trainer/tensor/kernels.h"

namespace millrace {

template <typename T>
Tensor<T> gelu(Tape<T>& tape, const Tensor<T>& x) {
  const Tensor<T> y = tape.make(x.shape);
  kernels<T>().gelu(x.values, x.count(), y.values);
  tape.record({x}, y, [=](Tape<T>& t, const T* dy) {
    if (!x.needs_gradient()) return;
    const GradientSlot<T> slot = t.gradient_of(x);
    kernels<T>().gelu_backward(x.values, dy, x.count(), slot.add, slot.values);
  });
  return y;
}

template Tensor<float> gelu(Tape<float>&, const Tensor<float>&);
template Tensor<double> gelu(Tape<double>&, const Tensor<double>&);

}  // namespace millrace

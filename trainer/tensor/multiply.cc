#include "millrace/trainer/tensor/multiply.h"

#include "millrace/trainer/tensor/kernels.h"
#include "millrace/trainer/tensor/shape_check.h"

namespace millrace {

template <typename T>
Tensor<T> multiply(Tape<T>& tape, const Tensor<T>& a, const Tensor<T>& b) {
  check_shape("second factor of multiply", b.shape, a.shape);
  const Tensor<T> y = tape.make(a.shape);
  kernels<T>().multiply(a.values, b.values, a.count(), false, y.values);
  tape.record({a, b}, y, [=](Tape<T>& t, const T* dy) {
    if (t.wants(a)) {
      const GradientSlot<T> slot = t.gradient_of(a);
      kernels<T>().multiply(b.values, dy, a.count(), slot.add, slot.values);
    }
    if (t.wants(b)) {
      const GradientSlot<T> slot = t.gradient_of(b);
      kernels<T>().multiply(a.values, dy, a.count(), slot.add, slot.values);
    }
  });
  return y;
}

template Tensor<float> multiply(Tape<float>&, const Tensor<float>&, const Tensor<float>&);
template Tensor<double> multiply(Tape<double>&, const Tensor<double>&, const Tensor<double>&);

}  // namespace millrace

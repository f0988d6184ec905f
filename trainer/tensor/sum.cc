#include "millrace/trainer/tensor/sum.h"

namespace millrace {

template <typename T>
Tensor<T> sum(Tape<T>& tape, const Tensor<T>& x) {
  const Tensor<T> y = tape.make({});
  double total = 0;
  for (int64_t i = 0; i < x.count(); ++i) total += static_cast<double>(x.values[i]);
  *y.values = static_cast<T>(total);
  tape.record({x}, y, [=](Tape<T>& t, const T* dy) {
    const GradientSlot<T> slot = t.gradient_of(x);
    for (int64_t i = 0; i < x.count(); ++i) slot.values[i] = *dy + (slot.add ? slot.values[i] : 0);
  });
  return y;
}

template Tensor<float> sum(Tape<float>&, const Tensor<float>&);
template Tensor<double> sum(Tape<double>&, const Tensor<double>&);

}  // namespace millrace

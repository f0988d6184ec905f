#include "trainer/tensor/squared_error.h"

#include "trainer/tensor/shape_check.h"

namespace millrace {

template <typename T>
Tensor<T> squared_error(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& target) {
  check_shape("target of squared_error", target.shape, x.shape);
  const Tensor<T> y = tape.make(x.shape);
  for (int64_t i = 0; i < x.count(); ++i) {
    const T difference = x.values[i] - target.values[i];
    y.values[i] = difference * difference;
  }
  tape.record({x, target}, y, [=](Tape<T>& t, const T* dy) {
    const auto write = [&](const Tensor<T>& input, T sign) {
      if (!t.wants(input)) return;
      const GradientSlot<T> slot = t.gradient_of(input);
      for (int64_t i = 0; i < x.count(); ++i) {
        const T difference = x.values[i] - target.values[i];
        const T gradient = 2 * difference;
        slot.values[i] = sign * gradient * dy[i] + (slot.add ? slot.values[i] : 0);
      }
    };
    write(x, 1);
    write(target, -1);
  });
  return y;
}

template Tensor<float> squared_error(Tape<float>&, const Tensor<float>&, const Tensor<float>&);
template Tensor<double> squared_error(Tape<double>&, const Tensor<double>&, const Tensor<double>&);

}  // namespace millrace

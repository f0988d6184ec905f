#include "trainer/tensor/absolute_error.h"

#include <cmath>

#include "trainer/tensor/shape_check.h"

namespace millrace {

template <typename T>
Tensor<T> absolute_error(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& target) {
  check_shape("target of absolute_error", target.shape, x.shape);
  const Tensor<T> y = tape.make(x.shape);
  for (int64_t i = 0; i < x.count(); ++i) {
    const T difference = x.values[i] - target.values[i];
    y.values[i] = std::abs(difference);
  }
  tape.record({x, target}, y, [=](Tape<T>& t, const T* dy) {
    const auto write = [&](const Tensor<T>& input, T sign) {
      if (!t.wants(input)) return;
      const GradientSlot<T> slot = t.gradient_of(input);
      for (int64_t i = 0; i < x.count(); ++i) {
        const T difference = x.values[i] - target.values[i];
        const T gradient = static_cast<T>((difference > 0 ? 1 : 0) - (difference < 0 ? 1 : 0));
        slot.values[i] = sign * gradient * dy[i] + (slot.add ? slot.values[i] : 0);
      }
    };
    write(x, 1);
    write(target, -1);
  });
  return y;
}

template Tensor<float> absolute_error(Tape<float>&, const Tensor<float>&, const Tensor<float>&);
template Tensor<double> absolute_error(Tape<double>&, const Tensor<double>&, const Tensor<double>&);

}  // namespace millrace

#pragma once

#include "millrace/trainer/tensor/shape_check.h"
#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// A loss of each difference `x - target`: y of the shape of both. `value(difference)` is the loss, `slope(difference)`
/// its derivative. `what`: the target, for messages. Throws `kWrongShape` when the shapes differ.
template <typename T, typename Value, typename Slope>
Tensor<T> difference_loss(Tape<T>& tape, const char* what, const Tensor<T>& x, const Tensor<T>& target,
                          const Value& value, const Slope& slope) {
  check_shape(what, target.shape, x.shape);
  const Tensor<T> y = tape.make(x.shape);
  for (int64_t i = 0; i < x.count(); ++i) y.values[i] = value(x.values[i] - target.values[i]);
  tape.record({x, target}, y, [=](Tape<T>& t, const T* dy) {
    const auto write = [&](const Tensor<T>& input, T sign) {
      if (!t.wants(input)) return;
      const GradientSlot<T> slot = t.gradient_of(input);
      for (int64_t i = 0; i < x.count(); ++i) {
        slot.values[i] = sign * slope(x.values[i] - target.values[i]) * dy[i] + (slot.add ? slot.values[i] : 0);
      }
    };
    write(x, 1);
    write(target, -1);
  });
  return y;
}

}  // namespace millrace

#pragma once

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// An operator that maps each value of x by itself; same shape. `forward(x, n, y)` computes n values, `backward(x, y,
/// dy, n, add, dx)` writes or adds the gradient; both are loops of `Kernels`, with what they need captured by value.
template <typename T, typename Forward, typename Backward>
Tensor<T> pointwise(Tape<T>& tape, const Tensor<T>& x, const Forward& forward, const Backward& backward) {
  const Tensor<T> y = tape.make(x.shape);
  forward(x.values, x.count(), y.values);
  tape.record({x}, y, [=](Tape<T>& t, const T* dy) {
    const GradientSlot<T> slot = t.gradient_of(x);
    backward(x.values, y.values, dy, x.count(), slot.add, slot.values);
  });
  return y;
}

}  // namespace millrace

#pragma once

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// Rectified linear unit, `y = max(x, 0)`; same shape. The gradient at 0 is 0.
template <typename T>
Tensor<T> relu(Tape<T>& tape, const Tensor<T>& x);

/// `y = x > 0 ? x : slope x`; same shape. The gradient at 0 is `slope`.
template <typename T>
Tensor<T> leaky_relu(Tape<T>& tape, const Tensor<T>& x, double slope);

}  // namespace millrace

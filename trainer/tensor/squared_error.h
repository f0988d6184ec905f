#pragma once

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// `(x - target)^2` for each value, the terms of the mean squared error; same shape. `sum` adds them up. Throws
/// `kWrongShape` when the shapes differ.
template <typename T>
Tensor<T> squared_error(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& target);

}  // namespace millrace

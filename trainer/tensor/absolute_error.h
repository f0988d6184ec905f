#pragma once

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// `|x - target|` for each value, the terms of the L1 loss; same shape. The gradient where they are equal is 0. `sum`
/// adds them up. Throws `kWrongShape` when the shapes differ.
template <typename T>
Tensor<T> absolute_error(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& target);

}  // namespace millrace

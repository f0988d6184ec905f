#pragma once

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// Logistic function, `y = 1 / (1 + exp(-x))`; same shape.
template <typename T>
Tensor<T> sigmoid(Tape<T>& tape, const Tensor<T>& x);

}  // namespace millrace

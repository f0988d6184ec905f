#pragma once

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// Hyperbolic tangent; same shape.
template <typename T>
Tensor<T> tanh(Tape<T>& tape, const Tensor<T>& x);

}  // namespace millrace

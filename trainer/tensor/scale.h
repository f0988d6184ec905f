#pragma once

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// `y = factor x`; same shape.
template <typename T>
Tensor<T> scale(Tape<T>& tape, const Tensor<T>& x, double factor);

}  // namespace millrace

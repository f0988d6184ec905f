#pragma once

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// `y = a b`, value by value; same shape. Throws `kWrongShape` when the shapes differ.
template <typename T>
Tensor<T> multiply(Tape<T>& tape, const Tensor<T>& a, const Tensor<T>& b);

}  // namespace millrace

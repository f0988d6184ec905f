#pragma once

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// `y = a + b`, value by value; same shape. Throws `kWrongShape` when the shapes differ.
template <typename T>
Tensor<T> add(Tape<T>& tape, const Tensor<T>& a, const Tensor<T>& b);

/// `y[i, j] = x[i, j] + bias[j]`: x `[rows, columns]` (sizes before the last are taken as rows), bias `[columns]`;
/// gives x's shape. Throws `kWrongShape`.
template <typename T>
Tensor<T> add_bias(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& bias);

}  // namespace millrace

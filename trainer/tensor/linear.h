#pragma once

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// `y = x W^T + b`: x `[rows, in]` (sizes before the last are taken as rows), weight `[out, in]` as PyTorch stores it,
/// bias `[out]`; gives `[rows, out]`. Throws `kWrongShape` when the sizes do not fit.
template <typename T>
Tensor<T> linear(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& weight, const Tensor<T>& bias);

/// The same without a bias.
template <typename T>
Tensor<T> linear(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& weight);

}  // namespace millrace

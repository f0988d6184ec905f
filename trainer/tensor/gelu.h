#pragma once

#include "trainer/tensor/tape.h"

namespace millrace {

/// Gaussian error linear unit with the exact error function, `y = x Phi(x)` (arXiv 1606.08415); same shape.
template <typename T>
Tensor<T> gelu(Tape<T>& tape, const Tensor<T>& x);

}  // namespace millrace

#pragma once

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// Gaussian error linear unit with the exact error function, `y = x Phi(x)` (arXiv 1606.08415); same shape.
template <typename T>
Tensor<T> gelu(Tape<T>& tape, const Tensor<T>& x);

/// Its approximation by the hyperbolic tangent (the same paper, section 2), which BERT's first release and T5 v1.1 use.
template <typename T>
Tensor<T> gelu_tanh(Tape<T>& tape, const Tensor<T>& x);

}  // namespace millrace

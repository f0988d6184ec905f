#pragma once

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// Which factors enter a product transposed (their last two sizes exchanged).
struct MatmulOptions {
  bool transpose_a = false;  ///< Default: false
  bool transpose_b = false;  ///< Default: false
};

/// Products of matrices, one for each index of the sizes before the last two: a `[..., m, k]`, b `[..., k, n]`, or b
/// `[k, n]` for all of them; gives `[..., m, n]`. Throws `kWrongShape` when the sizes do not fit.
template <typename T>
Tensor<T> matmul(Tape<T>& tape, const Tensor<T>& a, const Tensor<T>& b, MatmulOptions options = {});

}  // namespace millrace

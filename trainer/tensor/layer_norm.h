#pragma once

#include <cstdint>
#include <span>

#include "millrace/trainer/tensor/dropout.h"
#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// Layer normalisation over the last size (arXiv 1607.06450): x `[rows, columns]`, gamma and beta `[columns]`; same
/// shape as x. `epsilon` is added to the variance. Throws `kWrongShape` when the sizes do not fit.
template <typename T>
Tensor<T> layer_norm(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& gamma, const Tensor<T>& beta, double epsilon);

/// `layer_norm(residual + dropout(x))`, the end of a transformer's sublayer, without the tensors in between. x and
/// residual are `[batch_rows * length, columns]`. Throws `kWrongShape` when the sizes do not fit.
template <typename T>
Tensor<T> residual_layer_norm(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& residual, int64_t batch_rows,
                              const DropoutMask& mask, const Tensor<T>& gamma, const Tensor<T>& beta, double epsilon);

/// The same for some rows: those of x and residual, `[tokens, columns]`, are the rows `tokens` of
/// `[batch_rows * length, columns]`, and have the dropout that they have there.
template <typename T>
Tensor<T> residual_layer_norm(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& residual, int64_t length,
                              std::span<const int32_t> tokens, const DropoutMask& mask, const Tensor<T>& gamma,
                              const Tensor<T>& beta, double epsilon);

}  // namespace millrace

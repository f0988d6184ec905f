#pragma once

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// Batch normalisation with given statistics, as it is used after training or in a frozen network (arXiv 1502.03167):
/// `y = gamma (x - mean) / sqrt(variance + epsilon) + beta` for each channel, the last size of x; the others are
/// `[channels]`. Same shape as x. The statistics get no gradient. Throws `kWrongShape` when the sizes do not fit.
template <typename T>
Tensor<T> inference_batch_norm(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& gamma, const Tensor<T>& beta,
                               const Tensor<T>& mean, const Tensor<T>& variance, double epsilon);

}  // namespace millrace

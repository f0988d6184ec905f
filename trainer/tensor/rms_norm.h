#pragma once

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// Root mean square normalisation over the last size (arXiv 1910.07467): `y = gamma x / sqrt(mean(x^2) + epsilon)`; x
/// `[rows, columns]`, gamma `[columns]`; same shape as x. Throws `kWrongShape` when the sizes do not fit.
template <typename T>
Tensor<T> rms_norm(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& gamma, double epsilon);

}  // namespace millrace

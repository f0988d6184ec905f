#pragma once

#include <cstdint>
#include <span>

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// The mean over the positions of a row that the mask keeps: `y[b] = sum_i mask[b, i] x[b, i] / sum_i mask[b, i]`; x
/// `[batch_rows, length, columns]`, mask `[batch_rows, length]` of 0 and 1, gives `[batch_rows, columns]`. A row
/// without any position gives zeros. `mask` must outlive the tape's step. Throws `kWrongShape` when the sizes do not
/// fit.
template <typename T>
Tensor<T> mean_pool(Tape<T>& tape, const Tensor<T>& x, std::span<const int64_t> mask);

}  // namespace millrace

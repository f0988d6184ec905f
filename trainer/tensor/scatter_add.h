#pragma once

#include <cstdint>
#include <span>

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// The rows of x added to those of a tensor of zeros: `y[indices[i]] += x[i]`, x `[indices, columns]`, gives `[rows,
/// columns]`. An index may come several times, or never. The other direction, gathering rows, is `embedding_sum` of one
/// table. `indices` must outlive the tape's step. Throws `kWrongShape` for another number of indices,
/// `kInvalidArgument` for one that is not below `rows`.
template <typename T>
Tensor<T> scatter_add(Tape<T>& tape, const Tensor<T>& x, std::span<const int32_t> indices, int64_t rows);

}  // namespace millrace

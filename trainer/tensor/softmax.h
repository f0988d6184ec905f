#pragma once

#include <cstdint>
#include <span>

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// Softmax over the last size; same shape. `mask` has the sizes of x, or its last few (it is then used again for each
/// index before them): where it is 0 the probability is 0, and the gradient too; a row without any 1 becomes zeros. It
/// must outlive the tape's step. Default: empty, nothing is masked. Throws `kWrongShape` when its number of values does
/// not fit.
template <typename T>
Tensor<T> softmax(Tape<T>& tape, const Tensor<T>& x, std::span<const uint8_t> mask = {});

}  // namespace millrace

#pragma once

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// The sum of all values, `[]`, added up in double precision.
template <typename T>
Tensor<T> sum(Tape<T>& tape, const Tensor<T>& x);

}  // namespace millrace

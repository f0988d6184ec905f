#pragma once

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// The indices `begin` to `begin + size` of one axis. Throws `kInvalidArgument` for an axis or indices that x does not
/// have.
template <typename T>
Tensor<T> slice(Tape<T>& tape, const Tensor<T>& x, int axis, int64_t begin, int64_t size);

}  // namespace millrace

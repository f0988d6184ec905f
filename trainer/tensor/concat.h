#pragma once

#include <span>

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// Tensors side by side along one axis; they agree in all other sizes. Throws `kInvalidArgument` for none or an axis
/// that they do not have, `kWrongShape` when another size differs.
template <typename T>
Tensor<T> concat(Tape<T>& tape, std::span<const Tensor<T>> parts, int axis);

}  // namespace millrace

#pragma once

#include <cstdint>

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// Two-dimensional convolution (cross-correlation, as in TensorFlow and PyTorch) with "SAME" padding, see
/// `SamePatches`: x `[images, height, width, in]`, kernel `[kernel_height, kernel_width, in, out]`; gives `[images,
/// ceil(height / stride), ceil(width / stride), out]`. A bias is `add_bias`'s. Throws `kWrongShape` when the sizes do
/// not fit, `kInvalidArgument` for a stride below 1.
template <typename T>
Tensor<T> conv2d(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& kernel, int64_t stride = 1);

}  // namespace millrace

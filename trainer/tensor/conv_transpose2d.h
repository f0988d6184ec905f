#pragma once

#include <cstdint>

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// Transposed convolution, the gradient of `conv2d` with respect to its input: x `[images, height, width, in]`, kernel
/// `[kernel_height, kernel_width, out, in]`; gives `[images, height * stride, width * stride, out]`. A bias is
/// `add_bias`'s. Throws `kWrongShape` when the sizes do not fit, `kInvalidArgument` for a stride below 1.
template <typename T>
Tensor<T> conv_transpose2d(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& kernel, int64_t stride = 1);

}  // namespace millrace

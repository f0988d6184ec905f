#pragma once

#include <cstdint>

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// Convolution of each channel by itself with "SAME" padding, see `SamePatches`: x `[images, height, width, channels]`,
/// kernel `[kernel_height, kernel_width, channels]`; gives `[images, ceil(height / stride), ceil(width / stride),
/// channels]`. A bias is `add_bias`'s. Throws `kWrongShape` when the sizes do not fit, `kInvalidArgument` for a stride
/// below 1.
template <typename T>
Tensor<T> depthwise_conv2d(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& kernel, int64_t stride = 1);

}  // namespace millrace

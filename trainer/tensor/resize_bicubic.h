#pragma once

#include <cstdint>

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// Images `[images, height, width, channels]` made `factor` times as large, to `[images, factor height, factor width,
/// channels]`: bicubic interpolation between the centres of pixels (Keys 1981, a = -0.5), with those at the border
/// repeated beyond it. Throws `kWrongShape` for what are no images, `kInvalidArgument` for a factor below 1.
template <typename T>
Tensor<T> resize_bicubic(Tape<T>& tape, const Tensor<T>& x, int64_t factor);

}  // namespace millrace

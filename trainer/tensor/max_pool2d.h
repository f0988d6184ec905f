#pragma once

#include <cstdint>

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// The largest value of each window of size x size pixels, by channel: x `[images, height, width, channels]`; gives
/// `[images, height / size, width / size, channels]`. Windows touch and do not overlap; rows and columns that are left
/// over at the end are dropped, as by PyTorch's `max_pool2d` (`ceil_mode=False`). The gradient goes to the first of
/// equal largest values, row by row; a window with a NaN gives NaN. `size`: Default: 2. Throws `kWrongShape` for other
/// than four sizes and for images that are smaller than a window, `kInvalidArgument` for a size below 1.
template <typename T>
Tensor<T> max_pool2d(Tape<T>& tape, const Tensor<T>& x, int64_t size = 2);

}  // namespace millrace

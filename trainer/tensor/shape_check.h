#pragma once

#include <string_view>

#include "trainer/tensor/tape.h"

namespace millrace {

/// Throws `kWrongShape` with both shapes when `found` is not `expected`: `weight of linear is [4, 3], not [4, 5]`.
void check_shape(std::string_view what, const TensorShape& found, const TensorShape& expected);

}  // namespace millrace

#pragma once

#include <cstdint>
#include <string_view>

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// Throws `kWrongShape` with both shapes when `found` is not `expected`: `weight of linear is [4, 3], not [4, 5]`.
void check_shape(std::string_view what, const TensorShape& found, const TensorShape& expected);

/// For tensors whose first size is `batch_rows` rows of the batch times what each of them has: throws `kWrongShape`
/// when it cannot be divided among them.
void check_batch_rows(std::string_view operator_name, const TensorShape& x, int64_t batch_rows);

}  // namespace millrace

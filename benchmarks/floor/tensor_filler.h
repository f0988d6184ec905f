#pragma once

#include "benchmarks/floor/row_filler.h"

namespace millrace {

/// Rows of the workload `images`: two TensorProtos are unpacked.
[[nodiscard]] RowFilling tensor_filling();

}  // namespace millrace

#pragma once

#include "ops/operator.h"

namespace millrace {

/// Runs a map on a block; when it throws, every element becomes that error (`user_function`, unless the exception is an
/// ErrorException with a code of its own).
[[nodiscard]] Block apply_map(const MapOperator& map, Block block, BufferPool& pool) noexcept;

}  // namespace millrace

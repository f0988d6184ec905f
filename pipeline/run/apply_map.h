#pragma once

#include "millrace/ops/operator.h"

namespace millrace {

/// Runs a map on a block; when it throws, every element becomes that error. Throws only where there is no memory for
/// these errors.
[[nodiscard]] Block apply_map(const MapOperator& map, Block block, BufferPool& pool);

/// Makes the columns of a block that a stage of this name has left to be made; what that throws becomes the error of
/// every element. Throws as `apply_map`.
[[nodiscard]] Block assemble_block(Block block, std::string_view stage, BufferPool& pool);

}  // namespace millrace

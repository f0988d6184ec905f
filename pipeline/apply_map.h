#pragma once

#include "ops/operator.h"

namespace millrace {

/// The exception that is being handled as the error of a stage: an ErrorException keeps its code, std::bad_alloc is
/// `out_of_memory`, everything else `user_function`.
[[nodiscard]] std::shared_ptr<const Error> current_exception_as_error(std::string_view stage);

/// Runs a map on a block; when it throws, every element becomes that error.
[[nodiscard]] Block apply_map(const MapOperator& map, Block block, BufferPool& pool) noexcept;

/// Makes the columns of a block that a stage of this name has left to be made; what that throws becomes the error of
/// every element.
[[nodiscard]] Block assemble_block(Block block, std::string_view stage, BufferPool& pool) noexcept;

}  // namespace millrace

#pragma once

#include "ops/operator.h"

namespace millrace {

/// The exception that is being handled as the error of a stage: an ErrorException keeps its code, std::bad_alloc is
/// `out_of_memory`, everything else `user_function`.
[[nodiscard]] std::shared_ptr<const Error> current_exception_as_error(std::string_view stage);

/// Runs a map on a block; when it throws, every element becomes that error.
[[nodiscard]] Block apply_map(const MapOperator& map, Block block, BufferPool& pool) noexcept;

}  // namespace millrace

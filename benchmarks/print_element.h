#pragma once

#include <string>

#include "millrace/pipeline/pipeline.h"

namespace millrace {

/// An element for people: a line for each feature with dtype, shape and the first values, rows in brackets:
///
///       t int64 [2,ragged]: [1 2] [3]
///
/// `max_values`: at least 1; then `...`. Default: 16
[[nodiscard]] std::string print_element(const Batch& batch, size_t max_values = 16);

}  // namespace millrace

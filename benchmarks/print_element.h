#pragma once

#include <string>

#include "pipeline/pipeline.h"

namespace millrace {

/// An element for people: a line for each feature with dtype, shape and the first values.
[[nodiscard]] std::string print_element(const Batch& batch, size_t max_values = 16);

}  // namespace millrace

#pragma once

#include <span>

#include "millrace/formats/columnar/column.h"
#include "millrace/ops/batch/padding.h"

namespace millrace {

/// The value as the type of a feature of numbers has it.
template <typename T>
T padding_as(const PaddingValue& value) {
  return std::holds_alternative<double>(value) ? static_cast<T>(std::get<double>(value))
                                               : static_cast<T>(std::get<int64_t>(value));
}

/// One feature of batches of these shapes, all of one rank; values not initialised.
[[nodiscard]] Column padded_column(BufferPool& pool, DType dtype, std::span<const Shape> shapes);

}  // namespace millrace

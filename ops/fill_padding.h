#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <type_traits>
#include <variant>
#include <vector>

#include "formats/columnar/column.h"
#include "ops/padded_batch.h"

namespace millrace {

/// Fills with one value. Where all its bytes are the same, as those of 0 and of -1 are, with the widest stores of the
/// machine: much of a padded batch is padding.
template <typename T>
void fill_padding(std::span<T> values, const T& value) {
  if constexpr (std::is_arithmetic_v<T>) {
    unsigned char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    if (std::all_of(bytes, bytes + sizeof(T), [&bytes](unsigned char byte) { return byte == bytes[0]; })) {
      if (!values.empty()) std::memset(values.data(), bytes[0], values.size_bytes());
      return;
    }
  }
  std::fill(values.begin(), values.end(), value);
}

/// The value as the type of a feature of numbers has it.
template <typename T>
T padding_as(const PaddingValue& value) {
  return std::holds_alternative<double>(value) ? static_cast<T>(std::get<double>(value))
                                               : static_cast<T>(std::get<int64_t>(value));
}

/// One feature of batches of these shapes, all of one rank, values not initialised.
[[nodiscard]] inline Column padded_column(BufferPool& pool, DType dtype, std::span<const Shape> shapes) {
  const bool alike = std::all_of(shapes.begin(), shapes.end(), [&](const Shape& shape) { return shape == shapes[0]; });
  if (alike) return Column::fixed(pool, dtype, shapes[0], shapes.size());
  std::vector<int64_t> offsets{0};
  std::vector<int64_t> dims;
  for (const Shape& shape : shapes) {
    offsets.push_back(offsets.back() + num_values(shape));
    dims.insert(dims.end(), shape.begin(), shape.end());
  }
  return Column::varying(pool, dtype, static_cast<int>(shapes[0].size()), offsets, dims);
}

}  // namespace millrace

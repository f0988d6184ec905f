#pragma once

#include <cstddef>
#include <cstdint>

#include "millrace/formats/columnar/block.h"

namespace millrace {

/// The number by which the random choices for a row are drawn: no two rows of an iteration have the same. `row` counts
/// within the element. After `batch`, where `rows_per_element` rows are counted in each element, it is the row's
/// ordinal, so that a row has the number that it had before. Rows beyond those, as of an element that is a matrix
/// without being a batch, are not counted in the stream: they lie 2^40 numbers apart for each time that the element is
/// gone through, where no ordinal comes.
[[nodiscard]] inline uint64_t row_number(const Block& block, size_t element, size_t row) {
  const auto counted = static_cast<uint64_t>(block.rows_per_element);
  const uint64_t first = static_cast<uint64_t>(block.first_row) + counted * element;
  return first + row % counted + (row / counted << 40);
}

}  // namespace millrace

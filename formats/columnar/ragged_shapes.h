#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "millrace/formats/columnar/counted_allocator.h"
#include "millrace/formats/columnar/schema.h"

namespace millrace {

// Shapes of elements with ragged dimensions, as numbers. `sizes` of an element are, for each dimension, outermost
// first: its size; of a ragged one instead its row splits, one more than there are rows so far, the first of them 0.
//
//     [[1,2],[3],[]]   has the shape [3,ragged] and the sizes 3, 0 2 3 3
//
// Which dimensions are ragged is a set of bits, bit d for dimension d; the first one never is. Pure functions; the
// sizes must be whole.

/// The ragged dimensions of a feature of this shape.
[[nodiscard]] uint32_t ragged_dimensions(const Shape& shape);

/// The shape of an element, `kRagged` in ragged dimensions.
[[nodiscard]] Shape ragged_shape(std::span<const int64_t> sizes, size_t rank, uint32_t ragged);

/// The row splits of a ragged dimension: `0 2 3 3` above.
[[nodiscard]] std::span<const int64_t> row_splits(std::span<const int64_t> sizes, uint32_t ragged, size_t dimension);

/// Appends to `sizes` those of one row of an element along its first dimension, and returns how many values it has. Its
/// rank is one less, and what is ragged in it are the dimensions `row_dimensions(ragged)`.
[[nodiscard]] int64_t append_row_sizes(std::span<const int64_t> element, size_t rank, uint32_t ragged, int64_t row,
                                       CountedVector<int64_t>& sizes);

/// A ragged second dimension is a row's first, of which a row has one size.
[[nodiscard]] constexpr uint32_t row_dimensions(uint32_t ragged) { return ragged >> 1 & ~1U; }

/// Appends to `sizes` those of an element that is made up of `rows`, sizes of elements in which the dimensions `ragged`
/// are ragged; where none is, a row's sizes are its shape. `shape`: that of the feature, with the rows as first
/// dimension. What differs from row to row must be ragged in it.
void append_group_sizes(std::span<const std::span<const int64_t>> rows, uint32_t ragged, const Shape& shape,
                        CountedVector<int64_t>& sizes);

}  // namespace millrace

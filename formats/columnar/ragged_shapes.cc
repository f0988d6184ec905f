#include "millrace/formats/columnar/ragged_shapes.h"

#include <cassert>

namespace millrace {
namespace {

bool is_ragged(uint32_t ragged, size_t dimension) { return (ragged >> dimension & 1) != 0; }

}  // namespace

uint32_t ragged_dimensions(const Shape& shape) {
  uint32_t dimensions = 0;
  for (size_t d = 0; d < shape.size(); ++d) dimensions |= shape[d] == kRagged ? uint32_t{1} << d : 0;
  assert((dimensions & 1) == 0);
  return dimensions;
}

Shape ragged_shape(std::span<const int64_t> sizes, size_t rank, uint32_t ragged) {
  const int64_t* given = sizes.data();
  Shape shape;
  int64_t rows = 1;
  for (size_t d = 0; d < rank; ++d) {
    if (is_ragged(ragged, d)) {
      shape.push_back(kRagged);
      given += rows;
      rows = *given++;
    } else {
      shape.push_back(*given);
      rows *= *given++;
    }
  }
  return shape;
}

std::span<const int64_t> row_splits(std::span<const int64_t> sizes, uint32_t ragged, size_t dimension) {
  assert(is_ragged(ragged, dimension));
  const int64_t* given = sizes.data();
  int64_t rows = 1;
  for (size_t d = 0; d < dimension; ++d) {
    if (is_ragged(ragged, d)) {
      given += rows;
      rows = *given++;
    } else {
      rows *= *given++;
    }
  }
  return {given, static_cast<size_t>(rows) + 1};
}

int64_t append_row_sizes(std::span<const int64_t> element, size_t rank, uint32_t ragged, int64_t row,
                         CountedVector<int64_t>& sizes) {
  const int64_t* given = element.data() + 1;
  int64_t all = element[0];  // rows of the element in the dimensions so far; of them the row's:
  int64_t from = row;
  int64_t to = row + 1;
  for (size_t d = 1; d < rank; ++d) {
    if (!is_ragged(ragged, d)) {
      sizes.push_back(*given);
      from *= *given;
      to *= *given;
      all *= *given++;
      continue;
    }
    if (d == 1) {
      sizes.push_back(given[to] - given[from]);
    } else {
      for (int64_t i = from; i <= to; ++i) sizes.push_back(given[i] - given[from]);
    }
    from = given[from];
    to = given[to];
    given += all;
    all = *given++;
  }
  return to - from;
}

void append_group_sizes(std::span<const std::span<const int64_t>> rows, uint32_t ragged, const Shape& shape,
                        CountedVector<int64_t>& sizes) {
  struct Row {
    const int64_t* sizes;  // of the dimensions to come
    int64_t count = 1;     // of what it has in the dimensions so far
  };
  CountedVector<Row> left{CountedAllocator<Row>(sizes.get_allocator())};
  left.reserve(rows.size());
  for (const std::span<const int64_t> row : rows) left.push_back({.sizes = row.data()});
  sizes.push_back(static_cast<int64_t>(rows.size()));
  for (size_t d = 0; d + 1 < shape.size(); ++d) {
    const bool as_splits = shape[d + 1] == kRagged;
    int64_t total = 0;
    sizes.push_back(as_splits ? 0 : shape[d + 1]);
    for (Row& row : left) {
      if (is_ragged(ragged, d)) {
        assert(as_splits);
        const int64_t* const splits = row.sizes;
        row.sizes += row.count + 1;
        for (int64_t i = 1; i <= row.count; ++i) sizes.push_back(total + splits[i]);
        row.count = splits[row.count];
        total += row.count;
        continue;
      }
      const int64_t size = *row.sizes++;
      assert(as_splits || size == shape[d + 1]);
      for (int64_t i = 0; as_splits && i < row.count; ++i) sizes.push_back(total += size);
      row.count *= size;
    }
  }
}

}  // namespace millrace

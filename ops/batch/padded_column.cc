#include "millrace/ops/batch/padded_column.h"

#include <algorithm>
#include <vector>

namespace millrace {

Column padded_column(BufferPool& pool, DType dtype, std::span<const Shape> shapes) {
  const bool alike = std::all_of(shapes.begin(), shapes.end(), [&](const Shape& shape) { return shape == shapes[0]; });
  if (alike) return Column::fixed(pool, dtype, shapes[0], shapes.size());
  std::vector<int64_t> offsets;
  offsets.reserve(shapes.size() + 1);
  offsets.push_back(0);
  std::vector<int64_t> dims;
  dims.reserve(shapes.size() * shapes[0].size());
  for (const Shape& shape : shapes) {
    offsets.push_back(offsets.back() + num_values(shape));
    dims.insert(dims.end(), shape.begin(), shape.end());
  }
  return Column::varying(pool, dtype, static_cast<int>(shapes[0].size()), offsets, dims);
}

}  // namespace millrace

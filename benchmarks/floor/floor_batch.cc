#include "benchmarks/floor/floor_batch.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "millrace/pipeline/stream_hash.h"

namespace millrace {

std::byte* FloorBatch::begin_column(size_t c, std::span<const int64_t> shape) {
  FloorColumn& column = columns_[c];
  column.shape.assign(shape.begin(), shape.end());
  column.num_values = static_cast<size_t>(std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()));
  const size_t bytes = column.num_values * size_of((*schema_)[c].dtype);
  if (!column.memory || column.memory->capacity() < bytes) column.memory = pool_.allocate(bytes);
  return column.memory->data();
}

uint64_t FloorBatch::touch(size_t rows) const {
  uint64_t sum = 0;
  for (size_t c = 0; c < columns_.size(); ++c) {
    const FloorColumn& column = columns_[c];
    const DType dtype = (*schema_)[c].dtype;
    const size_t step = std::max<size_t>(1, column.num_values / std::max<size_t>(1, rows));
    for (size_t at = 0; at < column.num_values; at += step) {
      if (dtype != DType::kBytes) {
        sum += std::to_integer<uint64_t>(column.memory->data()[at * size_of(dtype)]);
        continue;
      }
      const std::string_view payload = reinterpret_cast<const std::string_view*>(column.memory->data())[at];
      if (!payload.empty()) sum += static_cast<unsigned char>(payload.front());
    }
  }
  return sum;
}

uint64_t FloorBatch::digest() const {
  BufferPool pool;
  Block::Columns columns;
  for (size_t c = 0; c < columns_.size(); ++c) {
    const DType dtype = (*schema_)[c].dtype;
    Column column = Column::fixed(pool, dtype, Shape(columns_[c].shape.begin(), columns_[c].shape.end()), 1);
    std::memcpy(column.mutable_data(0), columns_[c].memory->data(), columns_[c].num_values * size_of(dtype));
    columns.push_back(std::move(column));
  }
  return batch_hash(Batch(Block(schema_, std::move(columns), 1)));
}

}  // namespace millrace

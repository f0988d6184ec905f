#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "millrace/formats/columnar/block.h"

namespace millrace {

/// The memory of one batch of a floor, used again for the next one.
class FloorBatch {
 public:
  FloorBatch(BufferPool& pool, SchemaPtr schema) : pool_(pool), schema_(std::move(schema)), columns_(schema_->size()) {}

  /// The batch has this shape in column `c` from now on; room for its values, which mean nothing yet.
  std::byte* begin_column(size_t c, std::span<const int64_t> shape);
  template <typename T>
  T* values(size_t c) {
    return reinterpret_cast<T*>(columns_[c].memory->data());
  }

  /// Reads a byte of each of the first `rows` rows in each column, as `touch_rows` does.
  uint64_t touch(size_t rows) const;
  /// `batch_hash` of what is in it.
  uint64_t digest() const;

 private:
  struct FloorColumn {
    Buffer memory;
    std::vector<int64_t> shape;
    size_t num_values = 0;
  };

  BufferPool& pool_;
  SchemaPtr schema_;
  std::vector<FloorColumn> columns_;
};

}  // namespace millrace

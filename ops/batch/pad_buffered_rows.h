#pragma once

#include <span>

#include "millrace/ops/batch/padding.h"
#include "millrace/ops/row_memory/buffered_row.h"

namespace millrace {

/// Makes one padded batch of rows that waited, without the columns in between: each value is copied once.
///
///     const PadBufferedRows pad(*schema, padding.rules());
///     Block::Columns columns;
///     if (!pad(rows, pool, columns)) ...   // by way of a block of all rows
class PadBufferedRows {
 public:
  PadBufferedRows(const Schema& input, std::span<const Padding::Rule> rules);

  /// Whether it knows the features: scalars and vectors of numbers.
  bool knows_features() const { return knows_features_; }
  /// One column for each feature, of one element. Encoded rows are moved on. False when a row is longer than it may be.
  bool operator()(std::span<BufferedRow> rows, BufferPool& pool, Block::Columns& columns) const;

 private:
  struct Feature {
    DType dtype = DType::kInt64;
    int rank = 0;
    int64_t size = 1;  // values of a row; kVaries: they are in the row
    Padding::Rule rule;
  };
  template <typename T>
  static bool pad(const Feature& feature, std::span<BufferedRow> rows, BufferPool& pool, Block::Columns& columns);

  std::vector<Feature> features_;
  bool knows_features_ = true;
};

}  // namespace millrace

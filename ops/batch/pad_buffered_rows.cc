#include "millrace/ops/batch/pad_buffered_rows.h"

#include <algorithm>
#include <cstring>

#include "millrace/formats/columnar/prefetch_lines.h"
#include "millrace/ops/batch/fill_padding.h"
#include "millrace/ops/batch/padded_column.h"

namespace millrace {
namespace {

// Rows stand in memory without regard to alignment.
int64_t length_at(const std::byte* row) {
  int64_t length = 0;
  std::memcpy(&length, row, sizeof length);
  return length;
}

// Values that vary in number, of the feature at hand.
size_t length_of(const BufferedRow& row, size_t feature) {
  return static_cast<size_t>(row.encoded != nullptr ? length_at(row.encoded)
                                                    : row.block->column(feature).num_values(row.element));
}

// The rows lie in other cores' caches.
void prefetch(const BufferedRow& row, size_t feature, size_t value_bytes) {
  const std::byte* values = row.encoded;
  size_t bytes = row.bytes;
  if (values == nullptr) {
    const Column& column = row.block->column(feature);
    values = column.data(row.element);
    bytes = static_cast<size_t>(column.num_values(row.element)) * value_bytes;
  }
  prefetch_lines(values, bytes);
}

}  // namespace

PadBufferedRows::PadBufferedRows(const Schema& input, std::span<const Padding::Rule> rules) {
  for (size_t c = 0; c < input.size(); ++c) {
    const FeatureSpec& feature = input[c];
    if (feature.dtype == DType::kBytes || feature.shape.size() > 1) knows_features_ = false;
    features_.push_back({.dtype = feature.dtype,
                         .rank = static_cast<int>(feature.shape.size()),
                         .size = num_values(feature.shape),
                         .rule = rules[c]});
  }
}

template <typename T>
bool PadBufferedRows::pad(const Feature& feature, std::span<BufferedRow> rows, BufferPool& pool,
                          Block::Columns& columns) {
  const size_t index = columns.size();
  const bool varies = feature.size == kVaries;
  Shape shape{static_cast<int64_t>(rows.size())};
  if (feature.rank == 1) {
    int64_t longest = feature.size;
    if (varies) {
      longest = 0;
      for (const BufferedRow& row : rows) longest = std::max(longest, static_cast<int64_t>(length_of(row, index)));
    }
    const int64_t target = feature.rule.length_for(varies, longest);
    if (longest > target) return false;
    shape.push_back(target);
  }
  Column column = Column::fixed(pool, feature.dtype, shape, 1);
  const size_t stride = feature.rank == 1 ? static_cast<size_t>(shape[1]) : 1;
  const T padding = padding_as<T>(feature.rule.value);
  T* to = column.mutable_values<T>().data();
  for (BufferedRow& row : rows) {
    if (feature.rank > 0 && &row != &rows.back()) prefetch((&row)[1], index, sizeof(T));
    const size_t count = varies ? length_of(row, index) : static_cast<size_t>(feature.size);
    const std::byte* values = row.encoded;
    if (values == nullptr) {
      values = row.block->column(index).data(row.element);
    } else {
      if (varies) values += sizeof(int64_t);
      row.encoded = values + count * sizeof(T);
    }
    if (count > 0) std::memcpy(to, values, count * sizeof(T));
    fill_padding(std::span(to + count, stride - count), padding);
    to += stride;
  }
  columns.push_back(std::move(column));
  return true;
}

bool PadBufferedRows::operator()(std::span<BufferedRow> rows, BufferPool& pool, Block::Columns& columns) const {
  for (const Feature& feature : features_) {
    const bool padded = visit_dtype(feature.dtype, [&]<typename T>() {
      if constexpr (std::is_arithmetic_v<T>) return pad<T>(feature, rows, pool, columns);
      return false;
    });
    if (!padded) return false;
  }
  return true;
}

}  // namespace millrace

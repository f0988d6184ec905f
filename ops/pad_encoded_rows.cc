#include "ops/pad_encoded_rows.h"

#include <algorithm>
#include <cstring>

namespace millrace {
namespace {

// Rows stand in memory without regard to alignment.
int64_t length_at(const std::byte* row) {
  int64_t length = 0;
  std::memcpy(&length, row, sizeof length);
  return length;
}

}  // namespace

PadEncodedRows::PadEncodedRows(const Schema& input, std::span<const Padding::Rule> rules) {
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
bool PadEncodedRows::pad(const Feature& feature, std::span<const std::byte*> rows, BufferPool& pool,
                         Block::Columns& columns) {
  const bool varies = feature.size == kVaries;
  Shape shape{static_cast<int64_t>(rows.size())};
  if (feature.rank == 1) {
    int64_t longest = feature.size;
    if (varies) {
      longest = 0;
      for (const std::byte* row : rows) longest = std::max(longest, length_at(row));
    }
    const bool to_boundary = varies && feature.rule.varying.has_value();
    const int64_t target = to_boundary ? *feature.rule.varying : feature.rule.length.length_for(longest);
    if (longest > target) return false;
    shape.push_back(target);
  }
  Column column = Column::fixed(pool, feature.dtype, shape, 1);
  const size_t stride = feature.rank == 1 ? static_cast<size_t>(shape[1]) : 1;
  const PaddingValue& value = feature.rule.value;
  const T padding = std::holds_alternative<double>(value) ? static_cast<T>(std::get<double>(value))
                                                          : static_cast<T>(std::get<int64_t>(value));
  T* to = column.mutable_values<T>().data();
  for (const std::byte*& row : rows) {
    auto count = static_cast<size_t>(feature.size);
    if (varies) {
      count = static_cast<size_t>(length_at(row));
      row += sizeof(int64_t);
    }
    if (count > 0) std::memcpy(to, row, count * sizeof(T));
    std::fill(to + count, to + stride, padding);
    row += count * sizeof(T);
    to += stride;
  }
  columns.push_back(std::move(column));
  return true;
}

bool PadEncodedRows::operator()(std::span<const std::byte*> rows, BufferPool& pool, Block::Columns& columns) const {
  for (const Feature& feature : features_) {
    bool padded = false;
    switch (feature.dtype) {
      case DType::kInt32: padded = pad<int32_t>(feature, rows, pool, columns); break;
      case DType::kInt64: padded = pad<int64_t>(feature, rows, pool, columns); break;
      case DType::kFloat32: padded = pad<float>(feature, rows, pool, columns); break;
      case DType::kBytes: break;
    }
    if (!padded) return false;
  }
  return true;
}

}  // namespace millrace

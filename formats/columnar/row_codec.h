#pragma once

#include <cstddef>
#include <span>

#include "millrace/formats/columnar/block_builder.h"

namespace millrace {

/// One element of a schema as bytes that need nothing else: how stages keep rows for long, without the chunks that the
/// rows' views point into. A raw record is its payload and nothing more; otherwise, feature by feature: the sizes where
/// the shape varies (int64 each; of a ragged one before them the numbers of values and of sizes), then the values,
/// `bytes` values as their lengths (uint64 each) and payloads. Numbers are in the machine's byte order.
class RowCodec {
 public:
  explicit RowCodec(SchemaPtr schema);

  size_t encoded_size(const Block& block, size_t element) const;
  /// Writes `encoded_size` bytes.
  void encode(const Block& block, size_t element, std::byte* out) const;
  /// Appends the element. Its `bytes` values point into `row`: see `hold`.
  void decode(std::span<const std::byte> row, BlockBuilder& builder) const;

  /// Whether an element is one `bytes` value, and its row that value.
  bool is_raw_record() const { return is_raw_record_; }
  /// Whether decoded elements point into their rows.
  bool has_views() const { return has_views_; }
  /// Makes the block being built keep `resource`.
  void hold(const Ref<Resource>& resource, BlockBuilder& builder) const;

 private:
  SchemaPtr schema_;
  bool is_raw_record_;
  bool has_views_ = false;
};

}  // namespace millrace

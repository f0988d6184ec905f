#pragma once

#include "millrace/ops/operator.h"
#include "millrace/ops/row_memory/packed_rows.h"

namespace millrace {

/// Makes elements of rows as bytes (`PackedRowCodec`), and batches of batches of them, each value written once, to its
/// place. What stands after a cache whose rows were moved as bytes: see the rewrite `defer_copy`.
class DecodeRowsOperator final : public MapOperator {
 public:
  /// `rows`: the schema of an element, every feature of a fixed shape and none `bytes`. `input`: one `bytes` value, or
  /// a batch of them.
  DecodeRowsOperator(const SchemaPtr& input, const SchemaPtr& rows);
  std::string_view name() const override { return "decode_rows"; }
  OperatorTraits traits() const override { return {.is_nonblocking = true, .uses_row_numbers = false}; }
  Block apply(Block block, BufferPool& pool) const override;

 private:
  SchemaPtr rows_;
  PackedRowCodec codec_;
};

}  // namespace millrace

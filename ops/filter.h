#pragma once

#include <functional>
#include <span>
#include <string>

#include "ops/operator.h"
#include "ops/row_view.h"

namespace millrace {

/// Which elements stay, one at a time. Must be thread safe, and should be a pure function of the element.
struct RowPredicate {
  std::string name;  ///< appears in errors and in `explain()`
  std::function<bool(const RowView&)> keep;
};

/// Which elements stay, for a whole block: `keep` has one entry for each element, 1 from the start.
struct BlockPredicate {
  std::string name;  ///< appears in errors and in `explain()`
  std::function<void(const Block&, std::span<uint8_t> keep)> decide;
};

/// Keeps the elements for which a predicate is true. Error elements stay; where the predicate throws, the element
/// becomes an error (of a block predicate: every element of the block).
///
///     FilterOperator filter(schema, RowPredicate{"short", [](const RowView& row) { return row.shape("ids")[0] < 512;
///     }});
class FilterOperator final : public MapOperator {
 public:
  FilterOperator(SchemaPtr schema, RowPredicate predicate);
  FilterOperator(SchemaPtr schema, BlockPredicate predicate);
  std::string_view name() const override { return "filter"; }
  std::string arguments() const override { return "predicate '" + function_name_ + "'"; }
  Block apply(Block block, BufferPool& pool) const override;
  bool hands_on_rows() const override { return true; }
  bool one_to_one() const override { return false; }
  /// Unknown, also of an infinite input, as tf.data has it.
  Cardinality cardinality(std::span<const Cardinality>) const override { return Cardinality::unknown(); }

 private:
  std::string function_name_;
  std::function<bool(const RowView&)> keep_;
  std::function<void(const Block&, std::span<uint8_t>)> decide_;
};

}  // namespace millrace

#pragma once

#include <functional>
#include <span>
#include <string>

#include "millrace/ops/arguments.h"
#include "millrace/ops/operator.h"
#include "millrace/ops/row_view.h"

namespace millrace {

/// Which elements stay, one at a time. Must be thread safe, and should be a pure function of the element.
struct RowPredicate {
  static constexpr std::string_view kKind = "row predicate";
  std::string name = {};  ///< appears in errors and in `explain()`
  std::function<bool(const RowView&)> keep = {};
};

/// Which elements stay, for a whole block: `keep` has one entry for each element, 1 from the start.
struct BlockPredicate {
  static constexpr std::string_view kKind = "block predicate";
  std::string name = {};  ///< appears in errors and in `explain()`
  std::function<void(const Block&, std::span<uint8_t> keep)> decide = {};
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
  Block apply(Block block, BufferPool& pool) const override;
  OperatorTraits traits() const override { return {.forwards_row_views = true}; }
  bool one_to_one() const override { return false; }
  /// Unknown, also of an infinite input, as tf.data has it.
  Cardinality cardinality(std::span<const Cardinality>) const override { return Cardinality::unknown(); }

 private:
  std::string function_name_;
  std::function<bool(const RowView&)> keep_;
  std::function<void(const Block&, std::span<uint8_t>)> decide_;
};

/// What `Dataset::filter` is called with.
struct FilterArguments {
  RowPredicate predicate = {};

  static constexpr auto fields() {
    return describe<FilterArguments>("filter", field::required<&FilterArguments::predicate>);
  }
};

/// What `Dataset::filter` is called with.
struct FilterBlocksArguments {
  BlockPredicate predicate = {};

  static constexpr auto fields() {
    using A = FilterBlocksArguments;
    return describe<A>("filter_blocks", field::required<&A::predicate>);
  }
};

}  // namespace millrace

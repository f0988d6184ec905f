#pragma once

#include <string>
#include <vector>

#include "millrace/ops/arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

/// Keeps some features, in the order in which they are named, and nothing is copied. What the others held is released.
///
///     x int64 [], name bytes [], tokens int64 [?]  ->  select({"tokens", "x"})  ->  tokens int64 [?], x int64 []
class SelectOperator final : public MapOperator {
 public:
  /// Throws `kInvalidArgument` for a feature that is not there or named twice, and when none is named.
  SelectOperator(const SchemaPtr& input, const std::vector<std::string>& features);
  std::string_view name() const override { return "select"; }
  OperatorTraits traits() const override { return {.is_nonblocking = true, .uses_row_numbers = false}; }
  Block apply(Block block, BufferPool& pool) const override;

 private:
  std::vector<size_t> columns_;  // of the input
};

/// What `Dataset::select` is called with.
struct SelectArguments {
  std::vector<std::string> features = {};

  static constexpr auto fields() {
    return describe<SelectArguments>("select", field::required<&SelectArguments::features>);
  }
};

}  // namespace millrace

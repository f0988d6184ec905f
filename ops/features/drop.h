#pragma once

#include <string>
#include <vector>

#include "millrace/ops/arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

/// Leaves features out; the others keep their order, and nothing is copied. What the dropped ones held is released.
///
///     x int64 [], name bytes [], tokens int64 [?]  ->  drop({"name"})  ->  x int64 [], tokens int64 [?]
class DropOperator final : public MapOperator {
 public:
  /// Throws `kInvalidArgument` for a feature that is not there, and when no feature would remain.
  DropOperator(const SchemaPtr& input, const std::vector<std::string>& features);
  std::string_view name() const override { return "drop"; }
  OperatorTraits traits() const override { return {.is_nonblocking = true, .uses_row_numbers = false}; }
  Block apply(Block block, BufferPool& pool) const override;

 private:
  std::vector<std::string> dropped_;
  std::vector<size_t> kept_;  // columns of the input
};

/// What `Dataset::drop` is called with.
struct DropArguments {
  std::vector<std::string> features = {};

  static constexpr auto fields() { return describe<DropArguments>("drop", field::required<&DropArguments::features>); }
};

}  // namespace millrace

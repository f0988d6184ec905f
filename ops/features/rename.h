#pragma once

#include <map>
#include <string>

#include "millrace/ops/arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

/// Gives features other names; they keep their places, and nothing is copied.
///
///     input_ids int64 [512], labels int64 [2]  ->  rename({{"input_ids", "ids"}})  ->  ids int64 [512], labels …
///
/// All names change at once, so two features can change theirs with each other.
class RenameOperator final : public MapOperator {
 public:
  /// `names`: from the old name to the new one. Throws `kInvalidArgument` for a feature that is not there, a name that
  /// two features would have, and an empty one.
  RenameOperator(const SchemaPtr& input, const std::map<std::string, std::string>& names);
  std::string_view name() const override { return "rename"; }
  OperatorTraits traits() const override { return {.is_nonblocking = true, .uses_row_numbers = false}; }
  Block apply(Block block, BufferPool& pool) const override;
};

template <>
struct OfFeature<std::string> {
  std::string feature;
  std::string to;

  static constexpr auto fields() {
    return describe<OfFeature>("NewName", field::required<&OfFeature::feature>, field::required<&OfFeature::to>);
  }
};

/// What `Dataset::rename` is called with.
struct RenameArguments {
  std::map<std::string, std::string> names = {};

  static constexpr auto fields() { return describe<RenameArguments>("rename", field::stream<&RenameArguments::names>); }
};

}  // namespace millrace

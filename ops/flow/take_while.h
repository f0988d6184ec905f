#pragma once

#include "millrace/ops/arguments.h"
#include "millrace/ops/flow/filter.h"
#include "millrace/ops/operator.h"

namespace millrace {

/// The elements before the first for which a predicate is false; nothing more is read then. Error elements pass; where
/// the predicate throws, the element becomes an error and the stream goes on.
///
///     x: 0 1 2 3 0 1,  x < 3   ->   0 1 2
class TakeWhileOperator final : public StageOperator {
 public:
  TakeWhileOperator(SchemaPtr schema, RowPredicate predicate);
  std::string_view name() const override { return "take_while"; }
  Cardinality cardinality(std::span<const Cardinality>) const override { return Cardinality::unknown(); }
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  OperatorTraits traits() const override { return {.forwards_row_views = true, .checkpoint_blocker = ""}; }

 private:
  RowPredicate predicate_;
};

/// What `Dataset::take_while` is called with.
struct TakeWhileArguments {
  RowPredicate predicate = {};

  static constexpr auto fields() {
    using A = TakeWhileArguments;
    return describe<A>("take_while", field::required<&A::predicate>);
  }
};

}  // namespace millrace

#pragma once

#include "millrace/ops/arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

/// Drops error elements and goes on with what follows. An error after which nothing follows (`Error::ends_stream`)
/// stays: what is missing would be missing silently. The stage's statistics count what it dropped: `errors`, and the
/// bytes of shards that were lost to them.
class IgnoreErrorsOperator final : public MapOperator {
 public:
  explicit IgnoreErrorsOperator(SchemaPtr schema) : MapOperator(std::move(schema)) {}
  std::string_view name() const override { return "ignore_errors"; }
  Block apply(Block block, BufferPool& pool) const override;
  OperatorTraits traits() const override {
    return {.is_nonblocking = true, .forwards_row_views = true, .swallows_errors = true};
  }
  bool one_to_one() const override { return false; }
  /// Unknown, also of an infinite input, as tf.data has it.
  Cardinality cardinality(std::span<const Cardinality>) const override { return Cardinality::unknown(); }
};

/// What `Dataset::ignore_errors` is called with.
struct IgnoreErrorsArguments {
  static constexpr auto fields() { return describe<IgnoreErrorsArguments>("ignore_errors"); }
};

}  // namespace millrace

#pragma once

#include <memory>
#include <string>

#include "millrace/ops/arguments.h"
#include "millrace/ops/batch/batch.h"

namespace millrace {

/// Joins and splits elements along their first dimension: the rows of all elements, one after the other, in batches of
/// `size`, as `unbatch` and `batch` would give them. Rows of a batch must be of one shape, except those of ragged
/// features. tf.data: `rebatch`.
///
///     range(7), batch(3), rebatch(2)         // [0,1] [2,3] [4,5] [6]
///     rows [1,2] [3] [4,5,6], rebatch(4)     // [1,2,3,4] [5,6]
///
/// State: a place in the input, and how many rows of the element there are gone.
class RebatchOperator final : public StageOperator {
 public:
  RebatchOperator(const SchemaPtr& input, int64_t size, BatchOptions options = {});
  std::string_view name() const override { return "rebatch"; }
  OperatorTraits traits() const override { return {.is_nonblocking = true, .checkpoint_blocker = ""}; }
  /// As in tf.data unknown, also where the sizes are in the schema.
  Cardinality cardinality(std::span<const Cardinality>) const override { return Cardinality::unknown(); }
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  /// One batch.
  int64_t memory_needed(std::span<const Cardinality>) const override {
    return least_bytes(*schema(), static_cast<int64_t>(size_));
  }

 private:
  SchemaPtr row_schema_;
  size_t size_;
  BatchOptions options_;
};

/// What `Dataset::rebatch` is called with.
struct RebatchArguments {
  int64_t size = 0;
  BatchOptions options = {};

  static constexpr auto fields() {
    using A = RebatchArguments;
    return describe<A>("rebatch", field::required<&A::size>, field::inlined<&A::options>);
  }
};

}  // namespace millrace

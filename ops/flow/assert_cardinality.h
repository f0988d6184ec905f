#pragma once

#include "millrace/ops/arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

/// Passes everything on, and is the error `cardinality` in the place of the first element too many, or at an end that
/// comes too early, with both numbers. Errors of elements do not count. Its cardinality is what was asserted.
///
///     Dataset::tfrecord(shards).assert_cardinality(18310)
///     Dataset::from_generator(endless).assert_cardinality(-1)   // infinite: any end is the error
class AssertCardinalityOperator final : public StageOperator {
 public:
  /// `count`: elements; at least 0, or -1 for infinitely many, tf.data's `INFINITE_CARDINALITY`.
  AssertCardinalityOperator(SchemaPtr input, int64_t count);
  std::string_view name() const override { return "assert_cardinality"; }
  Cardinality cardinality(std::span<const Cardinality>) const override {
    return count_ == -1 ? Cardinality::infinite() : Cardinality::known(count_);
  }
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  OperatorTraits traits() const override {
    return {.is_nonblocking = true, .forwards_row_views = true, .checkpoint_blocker = ""};
  }

 private:
  int64_t count_;
};

/// What `Dataset::assert_cardinality` is called with.
struct AssertCardinalityArguments {
  int64_t count = 0;

  static constexpr auto fields() {
    using A = AssertCardinalityArguments;
    return describe<A>("assert_cardinality", field::required<&A::count>);
  }
};

}  // namespace millrace

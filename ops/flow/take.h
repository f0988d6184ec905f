#pragma once

#include "millrace/ops/arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

/// The first `count` elements; all when `count` is negative. Error elements pass and do not count, as in tf.data; those
/// after the last element taken are not reached.
class TakeOperator final : public StageOperator {
 public:
  TakeOperator(SchemaPtr schema, int64_t count) : StageOperator(std::move(schema)), count_(count) {}
  std::string_view name() const override { return "take"; }
  Cardinality cardinality(std::span<const Cardinality> inputs) const override;
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  OperatorTraits traits() const override {
    return {.is_nonblocking = true,
            .forwards_row_views = true,
            .checkpoint_blocker = "",
            .is_row_passthrough = true,
            .is_light = true,
            .defer_parse = DeferParse::kBeforeErrors};
  }

 private:
  int64_t count_;
};

/// What `Dataset::take` is called with.
struct TakeArguments {
  int64_t count = 0;

  static constexpr auto fields() { return describe<TakeArguments>("take", field::required<&TakeArguments::count>); }
};

}  // namespace millrace

#pragma once

#include "millrace/ops/arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

/// All elements but the first `count`; none when `count` is negative. An error inside the skipped part is passed on,
/// and the count starts again after it, as in tf.data.
class SkipOperator final : public StageOperator {
 public:
  SkipOperator(SchemaPtr schema, int64_t count) : StageOperator(std::move(schema)), count_(count) {}
  std::string_view name() const override { return "skip"; }
  Cardinality cardinality(std::span<const Cardinality> inputs) const override;
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  OperatorTraits traits() const override {
    return {.is_nonblocking = true,
            .forwards_row_views = true,
            .checkpoint_blocker = "",
            .is_row_passthrough = true,
            .is_light = true};
  }

 private:
  int64_t count_;
};

/// What `Dataset::skip` is called with.
struct SkipArguments {
  int64_t count = 0;

  static constexpr auto fields() { return describe<SkipArguments>("skip", field::required<&SkipArguments::count>); }
};

}  // namespace millrace

#pragma once

#include "millrace/ops/arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

/// The input `count` times, one after the other; any negative number: forever. Each time is an iteration of its own:
/// the i-th within the e-th run of the repeat is epoch e × count + i, which its rows carry. An error does not end an
/// epoch. An input that turns out empty, repeated forever, ends at once.
class RepeatOperator final : public StageOperator {
 public:
  explicit RepeatOperator(SchemaPtr schema, int64_t count = -1)
      : StageOperator(std::move(schema)), count_(count < 0 ? -1 : count) {}
  std::string_view name() const override { return "repeat"; }
  Cardinality cardinality(std::span<const Cardinality> inputs) const override;
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  OperatorTraits traits() const override {
    return {.is_nonblocking = true,
            .forwards_row_views = true,
            .checkpoint_blocker = "",
            .is_row_passthrough = true,
            .is_light = true,
            .defer_parse = DeferParse::kAnywhere};
  }

 private:
  int64_t count_;
};

/// What `Dataset::repeat` is called with.
struct RepeatArguments {
  int64_t count = -1;

  static constexpr auto fields() { return describe<RepeatArguments>("repeat", field::stream<&RepeatArguments::count>); }
};

}  // namespace millrace

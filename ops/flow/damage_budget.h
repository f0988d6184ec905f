#pragma once

#include <cstdint>
#include <memory>

#include "millrace/formats/records/damage_policy.h"
#include "millrace/formats/records/skipped_region.h"
#include "millrace/ops/format_arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

/// Holds what a source leaves out against the budget of its dataset: notes (`Error::skipped`) pass as long as it lasts;
/// after its end they become errors of code `damage_budget`. Counts in the order of the stream, so the same for any
/// number of threads.
class DamageBudgetStage final : public Stage {
 public:
  static constexpr std::string_view kKind = "damage_budget";

  DamageBudgetStage(std::unique_ptr<Stage> input, const DamagePolicy& policy, const StageContext& context);
  Poll next(Block& out) override;

 private:
  std::shared_ptr<const Error> exceeded_by(const Error& note) const;

  const DamagePolicy policy_;
  std::unique_ptr<Stage> input_;
  Block block_;  // of the input, after a note that became an error
  size_t taken_ = 0;
  int64_t read_ = 0;  // records that came
  SkipCounts skipped_;
  bool unknown_end_ = false;  // of a region
};

/// Holds all that was left out of damaged files before it against one budget, of several sources or of parse_csv too.
/// It changes nothing as long as that lasts, then there is an error `damage_budget`. Notes alone count.
class DamageBudgetOperator final : public StageOperator {
 public:
  /// Throws `kInvalidArgument` for a policy without a budget.
  DamageBudgetOperator(SchemaPtr input, const DamagePolicy& policy);
  std::string_view name() const override { return "damage_budget"; }
  Cardinality cardinality(std::span<const Cardinality> inputs) const override { return inputs[0]; }
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  OperatorTraits traits() const override {
    return {.is_nonblocking = true, .forwards_row_views = true, .checkpoint_blocker = ""};
  }

 private:
  DamagePolicy policy_;
};

/// Opens the stage below a DamageBudgetStage, also from the state of a pipeline that had the other policy.
[[nodiscard]] std::unique_ptr<Stage> open_below_damage_budget(const OpenStage& open, const StageContext& context);

/// What `Dataset::damage_budget` is called with.
struct DamageBudgetArguments {
  DamagePolicy policy = {};

  static constexpr auto fields() {
    using A = DamageBudgetArguments;
    return describe<A>("damage_budget", field::damage<&A::policy>.required());
  }
};

}  // namespace millrace

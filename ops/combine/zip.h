#pragma once

#include "millrace/ops/arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

/// One element of each input side by side, their features merged; ends with the first input that ends, asked in order.
/// Values are not copied: where blocks of the inputs end at different places, the columns are cut.
///
///     x: 0 1 2 3,  y: 10 11 12   ->   x=0 y=10,  x=1 y=11,  x=2 y=12
///
/// Elements meet by their number: what `damage = skip` leaves out of one input shifts all pairs after it.
///
/// An error on any side takes the place of its whole element; of several the first input's counts. Rows per element are
/// the most of any input, so that rows of batches are counted wherever they stand, and where rows come from is what the
/// first input of as many knows. The inputs run in the iteration of the whole: two shuffles with one seed give one
/// order, so that what belongs together stays together. The epoch is that of the whole, not one that an input counts
/// for itself.
class ZipOperator final : public StageOperator {
 public:
  /// Throws `kInvalidArgument` when there are no inputs or two have a feature of one name.
  explicit ZipOperator(std::span<const SchemaPtr> inputs);
  std::string_view name() const override { return "zip"; }
  OperatorTraits traits() const override { return {.is_nonblocking = true, .checkpoint_blocker = ""}; }
  /// The smallest; unknown with an unknown input.
  Cardinality cardinality(std::span<const Cardinality> inputs) const override;
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  bool inputs_run_ahead() const override { return true; }
};

/// What `Dataset::zip` is called with.
struct ZipArguments {
  static constexpr auto fields() { return describe<ZipArguments>("zip"); }
};

}  // namespace millrace

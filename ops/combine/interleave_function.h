#pragma once

#include <memory>
#include <string>
#include <vector>

#include "millrace/ops/combine/interleave.h"
#include "millrace/ops/combine/nested_function.h"

namespace millrace {

/// Makes a dataset of each element; `cycle_length` of them are open at once and take turns with `block_length`
/// elements, in the order of tf.data's `ds.interleave(function, cycle_length, block_length)`.
///
///     x: 3 1 2,  range(10 x, 10 x + x)  with a cycle of 2  ->  30 10 31 32 20 21
///
/// A dataset is found to have ended in its turn, and the next one takes its place when that turn comes back. Errors of
/// nested datasets and of elements pass and do not count in a turn; what the function throws is the error of its
/// element. Each nested dataset runs in a lane of its own, side by side with the others, in the iteration
/// `nested(number of the element)`; `read_ahead` of them are opened before their turn comes, so the function is called
/// ahead. Rows get the epoch of the whole.
///
/// State: of each open dataset the element that made it and where it is; the place in the input; the turn.
class InterleaveFunctionOperator final : public StageOperator {
 public:
  /// The longest cycle: its datasets are open and have memory all at once.
  static constexpr size_t kMostLanes = 1000;

  /// Throws `kInvalidArgument` for lengths below 1, and for more than `kMostLanes` datasets open at once.
  InterleaveFunctionOperator(NestedFunction function, const InterleaveOptions& options);
  std::string_view name() const override { return kName; }
  /// Unknown, as tf.data has it.
  Cardinality cardinality(std::span<const Cardinality>) const override { return Cardinality::unknown(); }
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  OperatorTraits traits() const override {
    return {.forwards_row_views = true, .checkpoint_blocker = options_.ordered ? "" : "its inputs are not ordered"};
  }
  size_t num_lanes() const override { return options_.num_lanes(); }
  bool lanes_run_inputs() const override { return false; }

 private:
  static constexpr std::string_view kName = "interleave";

  NestedFunction function_;
  InterleaveOptions options_;
};

}  // namespace millrace

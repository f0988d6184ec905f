#pragma once

#include "millrace/ops/arguments.h"
#include "millrace/ops/combine/selection.h"

namespace millrace {

struct ChooseOptions {
  bool stop_on_empty = true;  ///< end when a choice names an input that has ended, else pass over it. Default: true

  static constexpr auto fields() {
    using A = ChooseOptions;
    return describe<A>("ChooseOptions", field::stream<&A::stop_on_empty>);
  }
};

/// Takes each element from the input whose number, from 0, the first input says: int64 scalars.
///
///     choices: 0 1 1 0,  inputs: a0 a1 a2, b0 b1 b2   ->   a0 b0 b1 a1
///
/// A number that is no input's is an error in the place of its element. An error among the choices passes in its place
/// and chooses nothing. The end: when the choices end; when no input has elements, or with `stop_on_empty` when a
/// choice finds its input ended. 2^28 choices one after the other of inputs that have ended are an error: they would go
/// on forever.
class ChooseFromDatasetsOperator final : public StageOperator {
 public:
  /// `inputs`: the choices, then the data.
  ChooseFromDatasetsOperator(std::span<const SchemaPtr> inputs, ChooseOptions options);
  std::string_view name() const override { return "choose_from_datasets"; }
  /// Infinite with an infinite input, whatever the choices are, else unknown: as tf.data has it.
  Cardinality cardinality(std::span<const Cardinality> inputs) const override;
  /// Infinite where choices and data all are, else unknown: what does not end, and not only what is said to.
  Cardinality certain_cardinality(std::span<const Cardinality> inputs) const override;
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  OperatorTraits traits() const override {
    return {.is_nonblocking = true, .forwards_row_views = true, .checkpoint_blocker = ""};
  }
  bool inputs_run_ahead() const override { return true; }

 private:
  ChooseFromDatasetsOperator(JoinedSchema data, ChooseOptions options)
      : StageOperator(data.schema()), data_(std::move(data)), options_(options) {}

  JoinedSchema data_;
  ChooseOptions options_;
};

/// What `Dataset::choose_from_datasets` is called with.
struct ChooseFromDatasetsArguments {
  ChooseOptions options = {};

  static constexpr auto fields() {
    using A = ChooseFromDatasetsArguments;
    return describe<A>("choose_from_datasets", field::inlined<&A::options>);
  }
};

}  // namespace millrace

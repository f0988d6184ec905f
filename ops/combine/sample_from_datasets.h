#pragma once

#include "millrace/ops/arguments.h"
#include "millrace/ops/combine/selection.h"

namespace millrace {

struct SampleOptions {
  /// How often each input is drawn, against the others; 0: never. Default: empty, all equally often.
  std::vector<double> weights = {};
  uint64_t seed = 0;           ///< of the draws. Default: 0
  bool stop_on_empty = false;  ///< end when an input is drawn that has ended, else draw from the others. Default: false
  /// Each epoch draws its own numbers. Default: true
  bool rerandomize_each_iteration = true;

  static constexpr auto fields() {
    using A = SampleOptions;
    return describe<A>("SampleOptions", field::stream<&A::weights>, field::stream<&A::seed>,
                       field::stream<&A::stop_on_empty>, field::stream<&A::rerandomize_each_iteration>);
  }
};

/// Takes each element from an input that is drawn by its weight. Draw n of an epoch is a pure function of seed, epoch
/// and n; a draw of an input that turns out to have ended is made again among the others.
///
///     inputs: a0 a1 a2 …, b0 b1 b2 …, weights {0.75, 0.25}   ->   a0 a1 b0 a2 a3 a4 …
class SampleFromDatasetsOperator final : public StageOperator {
 public:
  /// `occurrence`: how many of these stand before it in the dataset. Throws `kInvalidArgument` for weights that are not
  /// one for each input, finite, at least 0 and not all 0.
  SampleFromDatasetsOperator(std::span<const SchemaPtr> inputs, SampleOptions options, uint64_t occurrence = 0);
  std::string_view name() const override { return "sample_from_datasets"; }
  /// Infinite with an infinite input, else unknown, as tf.data has it; of one input with a weight, its own.
  Cardinality cardinality(std::span<const Cardinality> inputs) const override;
  /// The same but unknown where `stop_on_empty` ends it with an input that is not infinite: what does not end, and not
  /// only what is said to.
  Cardinality certain_cardinality(std::span<const Cardinality> inputs) const override;
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  OperatorTraits traits() const override {
    return {.is_nonblocking = true, .forwards_row_views = true, .checkpoint_blocker = ""};
  }
  bool inputs_run_ahead() const override { return true; }

 private:
  SampleFromDatasetsOperator(JoinedSchema data, SampleOptions options, uint64_t occurrence);

  JoinedSchema data_;
  SampleOptions options_;  // with weights
  uint64_t occurrence_;
};

/// What `Dataset::sample_from_datasets` is called with.
struct SampleFromDatasetsArguments {
  SampleOptions options = {};

  static constexpr auto fields() {
    using A = SampleFromDatasetsArguments;
    return describe<A>("sample_from_datasets", field::inlined<&A::options>);
  }
};

}  // namespace millrace

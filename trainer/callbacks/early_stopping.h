#pragma once

#include <optional>

#include "millrace/trainer/callback.h"

namespace millrace {

struct EarlyStoppingOptions {
  std::string metric = "loss";        ///< of the evaluations, by its name. Default: loss
  std::optional<Better> better = {};  ///< Default: none, see `better_of`
  int64_t patience = 3;               ///< evaluations without an improvement that are put up with. Default: 3
  double least_improvement = 0;       ///< what counts as one must be more than this. Default: 0
  int64_t after_step = -1;            ///< evaluations at this step or before do not count. Default: -1, all do
};

/// Ends a training when its evaluations have stopped getting better: after more than `patience` of them in a row that
/// did not improve on the best by more than `least_improvement`. One that is not finite is no improvement. A checkpoint
/// holds the best value and the count. `TrainerOptions::keep_best` keeps the model of the best one.
class EarlyStopping final : public Callback {
 public:
  /// Throws `kInvalidArgument` for a negative patience or improvement, and as `better_of`.
  explicit EarlyStopping(EarlyStoppingOptions options = {});

  /// Throws `kInvalidArgument` where evaluations have no such metric.
  void train_starts(const TrainingStart& start) override;
  void evaluation_ends(const EvaluationReport& report) override;
  bool finished() const override { return without_improvement_ > options_.patience; }
  /// `early_stopping(METRIC, lower)` or `higher`: a training may have one for each.
  std::string state_name() const override;
  std::string save_state() const override;
  void restore_state(const std::string& state) override;

 private:
  EarlyStoppingOptions options_;
  std::optional<double> best_;
  int64_t without_improvement_ = 0;
  int64_t evaluated_at_ = -1;  // a training that goes on may make up for the evaluation that this has seen
};

}  // namespace millrace

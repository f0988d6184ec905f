#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "millrace/pipeline/dataset.h"
#include "millrace/trainer/metrics/metric.h"
#include "millrace/trainer/model.h"
#include "millrace/trainer/run/data_look.h"
#include "millrace/trainer/run/output_folder.h"
#include "millrace/trainer/run/run_options.h"
#include "millrace/trainer/run/run_phases.h"
#include "millrace/trainer/run/run_summary.h"
#include "millrace/trainer/trainer_options.h"

namespace millrace {

class BucketOutput;
class Trainer;

/// What a run trains on.
struct RunData {
  Dataset training;                        ///< batches, forever
  std::optional<Dataset> evaluation = {};  ///< batches, all of them once. Default: no evaluation
  std::function<std::vector<std::unique_ptr<Metric>>()> metrics = nullptr;  ///< `TrainerOptions::metrics`
  std::vector<std::string> higher_is_better = {};                           ///< those of an evaluation that are no loss
  std::string description = {};  ///< `TrainerOptions::batches`: what a run that goes on must have in common
  std::vector<std::string> token_features = {};  ///< `TrainerOptions::token_features`
  int64_t batches_per_epoch = 0;                 ///< of `training`. Default: 0, nobody knows
  int64_t rows_per_epoch = 0;           ///< those of a last batch that is dropped included. Default: 0, nobody knows
  std::vector<std::string> masks = {};  ///< features that are 0 where there is padding. Default: none
  /// Shapes that the batches may have (ShapeLimit). Default: 0, they are alike but for a short last one
  int64_t max_shapes = 0;
  RowText look = nullptr;  ///< what a look at the first row says beside its numbers. Default: nothing
};

/// What a run trains, and how it is written; a run without one of the two functions is refused.
struct RunModel {
  const Model& model;
  /// Writes what is beside the weights (config.json, tokenizer) into a directory that exists: into checkpoints, and
  /// into the model's folder.
  std::function<void(const std::string& directory)> save_description = nullptr;
  /// Writes the weights, in the model's layout.
  std::function<void(const std::string& directory, std::span<const float> weights)> save_weights = nullptr;
};

/// Throws `kInvalidArgument` naming the option where evaluations are asked for and there is nothing to evaluate on.
void check_evaluation(const RunOptions& options, const RunData& data);

/// One training of a program, with its options and its folder: data, model, trainer and files come together here
/// (checkpoints, going on from them, logs, damaged shards, signals), and a program says what is its own.
///
///     TrainingRun run("train_mlm", options);
///     return run.train({.model = model, …}, {.training = batches, …}, [&](const TrainingSummary&) { return lines; });
class TrainingRun {
 public:
  /// With a folder (`RunOptions::out` is not empty), local or in a bucket (BucketOutput), makes it and keeps other
  /// trainings out. `program`: begins what is printed on standard error. Throws as OutputFolder and BucketOutput.
  TrainingRun(std::string program, RunOptions options);
  ~TrainingRun();
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  /// Trains until the end or a signal (StopSignals), writes the model and prints a summary with `lines` of the program.
  /// Gives the exit code: 0, or that of the signal, after which it has said how the training goes on. Throws as
  /// Trainer, `check_same_description` and Pipeline do; what was skipped of damaged shards has been printed then.
  int train(const RunModel& trained, const RunData& data,
            const std::function<std::vector<SummaryLine>(const TrainingSummary&)>& lines);

 private:
  class Batches;

  int train_in_folder(const RunModel& trained, const RunData& data,
                      const std::function<std::vector<SummaryLine>(const TrainingSummary&)>& lines);

  TrainerOptions trainer_options(const RunModel& trained, const RunData& data) const;
  void add_callbacks(Trainer& trainer, const RunPhase& last_phase, const RunData& data) const;

  /// How files of the run are called to whoever runs it.
  std::string shown(const std::string& path) const;

  const std::string program_;
  const std::unique_ptr<BucketOutput> bucket_;  // null: OUT is a local folder
  const RunOptions options_;
  std::optional<OutputFolder> folder_;
};

}  // namespace millrace

#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "examples/mlm/mlm_input.h"
#include "examples/mlm/train_mlm_options.h"
#include "millrace/command_line/skipped_at_error.h"
#include "millrace/formats/storage/folder_lock.h"
#include "millrace/trainer/models/roberta.h"
#include "millrace/trainer/trainer.h"

namespace millrace {

/// Throws `kInvalidArgument` when OUT holds an earlier run that may not be replaced: without `--overwrite` only a run
/// that goes on from a checkpoint in OUT/checkpoints may write there, and `--overwrite` must not remove what `--resume`
/// names.
void check_output_folder(const TrainMlmOptions& options);

/// One training of `train_mlm` and its folder: what its options mean for data, model, trainer and files. A synthetic
/// one has no folder and writes nothing. Made before the trainer, so that an error finds the trainer's progress bar
/// gone when this says what was skipped.
class MlmRun {
 public:
  /// Makes OUT and keeps other trainings out of it. An earlier run there stays, but for its log, until this one's first
  /// step. Throws as `check_output_folder` and `MlmInput` do.
  explicit MlmRun(TrainMlmOptions options);

  RobertaConfig model_config() const;
  std::unique_ptr<Optimizer> optimizer(const Model& model) const;
  std::unique_ptr<Schedule> schedule() const;
  /// `model` and this must outlive the trainer.
  TrainerOptions trainer_options(const RobertaForMaskedLm& model) const;
  /// Takes the trainer to the checkpoint of `--resume` and adds the callbacks. Throws as `Trainer::resume`.
  void prepare(Trainer& trainer) const;
  /// Starts the training batches where the trainer is. Throws `kState` when its checkpoint does not say where.
  BatchSource& start_batches(const Trainer& trainer);

  /// After a stop: how the training goes on.
  void print_stopped(const TrainingSummary& summary) const;
  /// Writes OUT/model and prints what came out, as a table or as one JSON object, on standard output.
  void finish(const RobertaForMaskedLm& model, std::span<const float> weights, const TrainingSummary& summary) const;

 private:
  std::string path(const char* name) const;
  std::string skipped_text() const;
  void save_skipped_file(const std::string& directory) const;
  void take_over_skipped_file() const;

  TrainMlmOptions options_;
  MlmInput input_;
  std::optional<FolderLock> lock_;
  SkippedAtError at_error_;  // last: it asks the input
};

}  // namespace millrace

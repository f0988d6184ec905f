#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "examples/mlm/mlm_data.h"
#include "examples/mlm/train_mlm_options.h"
#include "formats/storage/folder_lock.h"
#include "tokenizer/tokenizer.h"
#include "trainer/models/roberta.h"
#include "trainer/trainer.h"

namespace millrace {

/// Throws `kInvalidArgument` when OUT holds an earlier run that may not be replaced: without `--overwrite` only a run
/// that goes on from a checkpoint in OUT/checkpoints may write there, and `--overwrite` must not remove what `--resume`
/// names.
void check_output_folder(const TrainMlmOptions& options);

/// One training of `train_mlm` and its folder: what its options mean for data, model, trainer and files.
class MlmRun {
 public:
  /// Makes OUT and keeps other trainings out of it. An earlier run there stays, but for its log, until
  /// `earlier_run_remover` is told of the first step. Throws as `check_output_folder`, `MlmShards::find` and reading
  /// the tokenizer do; `kInvalidArgument` when the vocabulary is smaller than the tokenizer's, when the shards'
  /// statistics say another length or tokenizer, or when an epoch has not one global batch.
  explicit MlmRun(TrainMlmOptions options);

  /// Removes the earlier run that `--overwrite` gives up when this one has come through its first step; before that
  /// most of what can be wrong with it has been found. One that goes on from a checkpoint elsewhere replaces it when it
  /// starts. Must not outlive this.
  std::unique_ptr<Callback> earlier_run_remover() const;

  RobertaConfig model_config() const;
  /// `model` and this must outlive the trainer.
  TrainerOptions trainer_options(const RobertaForMaskedLm& model) const;
  Dataset training_batches() const { return mlm_training_batches(shards_, data_); }
  std::string log_file() const { return options_.out + "/log.jsonl"; }
  /// Where what is left out of damaged training shards is listed (SkippedLog).
  std::string skipped_file() const { return options_.out + "/skipped.jsonl"; }
  /// Makes that list, of a run that goes on from a checkpoint, the one that the checkpoint holds, wherever its own run
  /// was. Throws `kIo`.
  void take_over_skipped_file() const;
  /// What a run that ends early says about them; empty when nothing was left out.
  std::string skipped_text(const SkipReport& skipped) const;
  void save_model(const RobertaForMaskedLm& model, std::span<const float> weights) const;
  /// What came out, as a table or as one JSON object, on standard output.
  void print_summary(const TrainingSummary& summary, const SkipReport& skipped) const;

 private:
  std::string batches_text() const;
  void save_skipped_file(const std::string& directory) const;
  void check_statistics(const Tokenizer& tokenizer) const;

  TrainMlmOptions options_;
  std::optional<FolderLock> lock_;
  MlmShards shards_;
  MlmDataOptions data_;
  int32_t pad_token_ = 0;
  int32_t cls_token_ = 0;
  int32_t sep_token_ = 0;
};

}  // namespace millrace

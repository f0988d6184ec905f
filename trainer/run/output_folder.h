#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/formats/storage/folder_lock.h"
#include "millrace/trainer/callback.h"
#include "millrace/trainer/run/run_options.h"

namespace millrace {

/// Throws `kInvalidArgument` when `options.out` holds an earlier run that may not be replaced: without `overwrite` only
/// a run that goes on from a checkpoint in OUT/checkpoints may write there, and `overwrite` must not remove what
/// `resume` names.
void check_output_folder(const RunOptions& options);

/// Whether a path is that of a folder or of something in it. Links are followed; neither needs to be there. Not for
/// empty ones.
[[nodiscard]] bool lies_below(const std::string& path, const std::string& folder);

/// For `resume` = `last`: goes on from the newest of OUT/checkpoints. Where there is none the run begins anew and gives
/// up what one left that was killed before its first checkpoint; one that has its model it does not. Throws
/// `kInvalidArgument` without a folder, and as `checkpoints_in` does.
[[nodiscard]] RunOptions with_newest_checkpoint(RunOptions options);

/// The URL of the newest of the checkpoints in a folder of a bucket; empty: there is none. Throws `kIo`.
[[nodiscard]] std::string newest_checkpoint_in_bucket(const std::string& folder);

/// The folder of a model: this one, or of a folder such as OUT/best that of the best model in it. Throws
/// `kInvalidArgument` where there is none, naming the program that writes one. Default: "a training"
[[nodiscard]] std::string model_folder(const std::string& folder, std::string_view written_by = "a training");

/// The folder of a training run, kept from other trainings while this lives:
///
///     model/         the model at the end, in the layout that its program writes
///     best/          step-00000120, ...: those of `keep_best`
///     checkpoints/   checkpoint-00000100, ...
///     log.jsonl      JsonlLog
///     tensorboard/   TensorboardLog
///     skipped.jsonl  what was left out of damaged shards (SkippedLog)
class OutputFolder {
 public:
  /// Makes the folder. An earlier run there stays until this one's first step. Throws as
  /// `check_output_folder`, FolderLock and the file system do.
  explicit OutputFolder(const RunOptions& options);
  /// An empty log and folders that it made are removed where nothing else is in them: of a run that was refused.
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  std::string model() const { return path("model"); }
  std::string best() const { return path("best"); }
  std::string checkpoints() const { return path("checkpoints"); }
  std::string tensorboard() const { return path("tensorboard"); }
  std::string skipped() const { return path("skipped.jsonl"); }
  /// Where this run's log is written; it takes the place of an earlier run's with the first step.
  std::string log() const;
  /// Removes the earlier run that `overwrite` gives up, and puts the log in its place; null where there is neither. To
  /// be called before TensorboardLog.
  std::unique_ptr<Callback> earlier_run_remover() const;

  /// Puts the list of what was left out into a checkpoint: with it the checkpoint can go on in any folder.
  void save_skipped_list(const std::string& checkpoint) const;
  /// Takes over the list of the checkpoint that `resume` names.
  void take_over_skipped_list() const;

 private:
  std::string path(const std::string& name) const { return options_.out + "/" + name; }

  const RunOptions options_;
  std::vector<std::filesystem::path> made_;  // the inner one first
  std::optional<FolderLock> lock_;
  bool replaces_log_ = false;  // that of a run that has ended, where this one does not go on with it
};

}  // namespace millrace

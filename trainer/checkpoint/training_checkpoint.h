#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "millrace/pipeline/pipeline_state.h"
#include "millrace/trainer/optimizers/optimizer.h"
#include "millrace/trainer/schedules/schedule.h"
#include "millrace/trainer/step/loss_scaling.h"
#include "millrace/trainer/step/step_graph.h"

namespace millrace {

/// How far a training has come: the counters that everything else is a function of. Learning rate and optimizer follow
/// from `updates`, the models' random choices from `seed` and `micro_batches`. It is that of a training between two
/// steps: none holds a part of the gradients of one.
struct TrainingProgress {
  int64_t step = 0;  ///< updates done or skipped
  /// Global batches taken: `step` times `accumulate`, or fewer when ends of epochs have cut steps short.
  int64_t micro_batches = 0;
  int64_t updates = 0;           ///< updates done in the phase: of one, `step` less those that were skipped
  int64_t skipped_in_a_row = 0;  ///< updates skipped since the last one that was done
  uint64_t seed = 0;
  int64_t accumulate = 1;       ///< global batches of a step
  int64_t replicas = 0;         ///< parts that a batch is divided into; 0: not known
  int64_t epoch = 0;            ///< of the last batch taken
  bool in_epoch = false;        ///< callbacks have not been called for the end of that epoch
  bool evaluation_due = false;  ///< one was due after the last step, and a stop came before its end
  StepResult unreported = {};   ///< losses since the last report that was due: the next one covers them
  LossScale loss_scale = {};    ///< 1 without loss scaling
  std::string model = {};       ///< its description (`Model::describe`); empty: it has none, or it is not known
  /// How gradients are made into updates beside the optimizer, in words: normalisation, clipping, what is frozen.
  std::string gradients = {};
  std::map<std::string, std::string> callbacks = {};  ///< states of callbacks by their names
};

/// The checkpoints of one training: a folder with one directory for each, `checkpoint-00000120` after 120 steps.
///
/// A directory holds `model.safetensors` (weights by their names), `optimizer.safetensors` (slots, `NAME.SLOT`),
/// `training.json` (its version, progress; model, optimizer, schedule and batches in words), `source.state` (the place
/// in the data, of a source that has one) and what `more_files` adds. It is written under a temporary name, brought to
/// the disk and renamed: a process killed at any moment leaves no damaged directory with a final name. What it leaves
/// under a temporary name the next save removes. One thread at a time, and one process per folder.
///
///     CheckpointFolder checkpoints("out/checkpoints", {.keep_last = 2});
///     checkpoints.save(progress, layout, state, optimizer, schedule);
///     TrainingProgress there = load_checkpoint(checkpoints.paths().back(), layout, state, optimizer, schedule);
class CheckpointFolder {
 public:
  struct Options {
    /// The newest that stay, counted back from the one just saved. Later steps, from before a training was taken up
    /// again further back, stay as well until they are replaced. Default: 3
    int keep_last = 3;
    /// Writes further files into the directory it is given (a model's configuration, ...). Default: none
    std::function<void(const std::string& directory)> more_files = {};
    /// Checkpoints of another training in the folder are taken as they are, because the caller knows them to be
    /// nobody's. Default: false, `Trainer::train` refuses the folder
    bool replace_others = false;
  };

  /// Throws `kInvalidArgument` for an empty path or fewer than 1 to keep. The folder is made by `begin` or the first
  /// save.
  CheckpointFolder(std::string folder, Options options);

  /// Returns the path of the new directory. `batches` says in words what the training is fed with, `source` how far
  /// that has come. Default: nothing. An
  /// older one of the same step is replaced. Throws `kIo` naming the file that could not be written; the checkpoints
  /// before it are then still whole.
  std::string save(const TrainingProgress& progress, const ParameterLayout& layout, const TrainedState& state,
                   const Optimizer& optimizer, const Schedule& schedule, const std::string& batches = {},
                   const std::optional<PipelineState>& source = std::nullopt);

  /// As `checkpoints_in`.
  std::vector<std::string> paths() const;
  /// Throws `kInvalidArgument` naming the folder where it holds checkpoints of another training (by `training.id`), and
  /// for one that starts from nothing (`resumed` false) also where it holds such as have no id, of earlier versions:
  /// `newest_checkpoint` could not tell them from this training's.
  void check_folder(const std::string& training, bool resumed) const;
  /// Before a model is kept: writes the id of the training into the folder (`training.id`), which is made, unless there
  /// are checkpoints, which have it. Until the first save nothing else says whose the models are; that removes the
  /// file. Throws `kIo` naming it.
  void begin(const std::string& training) const;

 private:
  std::string folder_;
  Options options_;
};

/// The checkpoints in the folder of a training, by ascending step; also while another process trains and saves there.
/// One that is among the newest `keep_last` stays until as many have been saved after it. Throws `kIo` for a folder
/// that cannot be read; one that does not exist holds none.
std::vector<std::string> checkpoints_in(const std::string& folder);
/// The last of them, or nothing where there is none: what `Trainer::resume` goes on from after a process was killed
/// (`Trainer::resume_newest` does both, and what is to be done where there is none).
std::optional<std::string> newest_checkpoint(const std::string& folder);

/// The counters of a checkpoint. One of version 1, from before steps of several batches, counts as one with one batch
/// in each step. Throws `kIo` or `kParse` naming the file, and the field for a number that no training can have.
TrainingProgress read_progress(const std::string& directory);
/// Throws `kInvalidArgument` unless a run has what its checkpoint was made with; `what`, in the message: `the
/// schedule`.
void need_same_as_checkpoint(const std::string& directory, std::string_view what, const std::string& there,
                             const std::string& here);
/// The place in the data of a checkpoint, if it holds one. Throws `kIo`, `kParse` or `kState` naming the file, also
/// when `training.json` says that there was one and it is gone.
std::optional<PipelineState> read_source_state(const std::string& directory);

/// Reads a checkpoint directory into `state`. Throws `kIo` or `kParse` naming the file, and `kInvalidArgument` when it
/// is of another model, optimizer, schedule or other batches: the message lists the parameters that are missing,
/// unexpected or of another shape, or shows both descriptions. `state` is not changed then.
TrainingProgress load_checkpoint(const std::string& directory, const ParameterLayout& layout, TrainedState& state,
                                 const Optimizer& optimizer, const Schedule& schedule, const std::string& batches = {});

}  // namespace millrace

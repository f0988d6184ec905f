#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/trainer/batch_source.h"
#include "millrace/trainer/callback.h"
#include "millrace/trainer/checkpoint/best_models.h"
#include "millrace/trainer/checkpoint/training_checkpoint.h"
#include "millrace/trainer/model.h"
#include "millrace/trainer/optimizers/optimizer.h"
#include "millrace/trainer/schedules/schedule.h"
#include "millrace/trainer/step/step_graph.h"
#include "millrace/trainer/trainer_options.h"

namespace millrace {

/// A stretch of a training, up to the next one or the end, in which weights are updated in a way of its own.
struct TrainingPhase {
  int64_t first_step = 0;  ///< steps of the training before it; more than before the phase before
  std::unique_ptr<Optimizer> optimizer = nullptr;
  std::unique_ptr<Schedule> schedule = nullptr;  ///< counts the updates of the phase
  std::string frozen = {};                       ///< as `TrainerOptions::frozen`. Default: empty, none
};

/// Trains a model on the batches of a source: steps, evaluations, checkpoints, reports.
///
/// A step is one attempt to update the weights, on `accumulate` global batches; everything that is counted in steps
/// (`total_steps`, `report_every`, ...) counts these; a schedule counts the updates that were done, so a step that was
/// skipped does not move it. When an epoch or the data end within a step, the step
/// is made with the batches that there are; its gradient is divided by their weight, so no row counts more or less than
/// in a whole one.
///
///     Trainer trainer(model, std::make_unique<Adam>(model.layout(), adam_weight_decay(1e-3)),
///                     linear_warmup_decay({.learning_rate = 1e-3, .warmup_steps = 25, .total_steps = 250}),
///                     {.total_steps = 250, .token_features = {"input_ids"}});
///     trainer.add_callback(std::make_unique<ProgressBar>());
///     PipelineSource source(dataset.start());
///     TrainingSummary summary = trainer.train(source);
///
/// The same batches, seed and options give the same weights bit for bit, with any number of threads, and also when the
/// training was cut in two by a checkpoint; the reports then have the same losses too. One thread at a time; the
/// calling thread works on the steps. An epoch has ended when the source gives a batch of the next one or comes to its
/// end; `total_steps` ends the training without ending the epoch.
class Trainer {
 public:
  /// `model` must outlive it. Start values of the weights are the model's, by `options.step.seed`. Throws
  /// `kInvalidArgument` for options out of range, and without an optimizer or schedule.
  Trainer(const Model& model, std::unique_ptr<Optimizer> optimizer, std::unique_ptr<Schedule> schedule,
          TrainerOptions options);

  /// A further phase, after those that there are: when `first_step` steps have been made the next one is of this
  /// phase, with slots that are 0 and a schedule at its beginning; everything else goes on. A checkpoint after
  /// `first_step` steps is of the phase before. To be called before `resume` and `train`. Throws `kInvalidArgument` for
  /// steps that are not after those of the phase before and before `total_steps`, without an optimizer or schedule, and
  /// for what is frozen as TrainedState does.
  void add_phase(TrainingPhase phase);

  /// Throws `kInvalidArgument` when there is one with the same `state_name` already.
  void add_callback(std::unique_ptr<Callback> callback);

  /// Goes on from a checkpoint directory: weights, slots and counters become those in it. The source given to `train`
  /// must then begin with the batch number `micro_batches()` (from 0): a pipeline starts with `source_state()`, and
  /// `train` refuses one that stands elsewhere. The list of the best models in it goes on with `keep_best`; without, it
  /// stays in the checkpoints as it is. Throws as `load_checkpoint`, and `kInvalidArgument` for another model (by its
  /// description), seed, `accumulate` or number of replicas; nothing has changed then.
  void resume(const std::string& checkpoint);
  /// What a program that is started again and again wants: resumes the newest checkpoint of
  /// `TrainerOptions::checkpoint_folder`, and returns its path. Where there is none the training begins anew, under the
  /// id of a run that began in this folder and was killed before its first checkpoint: the best models that it left are
  /// replaced, and those of another training refused as ever. Throws as `resume` and `newest_checkpoint`, and
  /// `kInvalidArgument` without a `checkpoint_folder`.
  std::optional<std::string> resume_newest();
  /// The place in the data after the last step, as the source of `train` or the checkpoint of `resume` had it. A
  /// training without checkpoints does not ask its source, which then needs no state.
  const std::optional<PipelineState>& source_state() const { return source_state_; }

  /// Trains until `total_steps`, the end of the data, or until `stop_requested` returns true (never, if it is empty);
  /// it is asked between steps and between the batches of an evaluation, which is then given up. At the end, unless
  /// stopped, evaluates; and leaves a checkpoint. Throws `kInvalidArgument`, before anything else happens, when the
  /// folder of the checkpoints or of `keep_best` holds some of another training, or when no evaluation has its metric;
  /// `kState` after `resume` for a source that stands elsewhere than the checkpoint's; what the source, the model or a
  /// callback threw; and `kNotFinite` when too many updates in a row were not finite, or a checkpoint is due and
  /// weights or slots are not: what is under a checkpoint's name is finite. What an evaluation or those who are told of
  /// it throw costs no step: a checkpoint is left that goes on with the evaluation.
  TrainingSummary train(BatchSource& source, const std::function<bool()>& stop_requested = {});

  /// The loss, and the metrics of the options, over all rows of a source, in order, with the weights as they are.
  /// Throws `kInvalidArgument` for a source that never ends, and what source and model throw.
  EvaluationReport evaluate(BatchSource& source);
  /// What the model predicts of each batch of a source, in order: exactly its rows, however many they are.
  void predict(BatchSource& source, const std::function<void(const GlobalBatch&, const Predictions&)>& take);

  /// Steps made so far.
  int64_t step() const { return progress_.step; }
  /// Global batches trained on so far.
  int64_t micro_batches() const { return progress_.micro_batches; }
  /// In the model's layout. May be written to between trainings.
  std::span<float> weights() { return state_.weights.span(); }
  const ParameterLayout& layout() const { return model_.layout(); }
  /// Those of the phase that the last step was of.
  const Optimizer& optimizer() const { return *phases_[phase_].optimizer; }
  const Schedule& schedule() const { return *phases_[phase_].schedule; }

 private:
  class Run;

  std::optional<EvaluationReport> evaluate_until(BatchSource& source, const std::function<bool()>& stop);
  void need_evaluation_value(const std::string& name);
  bool has_callback_state(const std::string& name) const;
  size_t phase_at(int64_t step) const;
  void enter_phase(size_t phase, TrainedState rule);
  bool begin_due_phase();
  void need_place_of_checkpoint(const BatchSource& source) const;
  void add_own_files(const std::string& checkpoint);
  std::map<std::string, std::string> callback_states() const;
  void save_checkpoint(const std::map<std::string, std::string>& callback_states);
  void offer_model(const EvaluationReport& report);
  template <typename Event, typename... Arguments>
  void tell(Event event, Arguments&&... arguments) {
    ClockSpan span{.begin = std::chrono::steady_clock::now()};
    for (const auto& callback : callbacks_) ((*callback).*event)(arguments...);
    span.end = std::chrono::steady_clock::now();
    callback_time_ += span.end - span.begin;
    events_.push_back(span);
  }

  const Model& model_;
  std::vector<TrainingPhase> phases_;
  size_t phase_ = 0;        // of the last step
  TrainerOptions options_;  // `frozen` is that of the phase
  TrainedState state_;
  std::optional<StepGraph> graph_;  // of the phase
  int threads_seen_ = 0;            // by graphs of phases before
  std::optional<BestModels> best_;
  std::optional<CheckpointFolder> checkpoints_;
  std::vector<std::unique_ptr<Callback>> callbacks_;
  bool resumed_ = false;           // and not trained since: the callbacks' states are still to be taken from progress_
  std::vector<ClockSpan> events_;  // calls of callbacks since the last step
  std::chrono::nanoseconds callback_time_{0};
  TrainingProgress progress_;
  std::optional<PipelineState> source_state_;  // after the last step's batch
  std::string training_id_;
  std::string last_checkpoint_;
};

}  // namespace millrace

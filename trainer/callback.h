#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "millrace/trainer/batch_source.h"
#include "millrace/trainer/checkpoint/best_models.h"
#include "millrace/trainer/metrics/metric.h"
#include "millrace/trainer/step/step_graph.h"

namespace millrace {

/// A loss or a metric for a person to read: with 4 decimals, in 4 digits where it is below 0.01, and `-` where it is
/// not defined.
[[nodiscard]] std::string value_text(double value);

/// What a training is, said once at its beginning.
struct TrainingStart {
  int64_t step = 0;            ///< more than 0 when it goes on from a checkpoint
  int64_t total_steps = 0;     ///< 0 when the data decide
  int64_t num_parameters = 0;  ///< elements
  int64_t num_trained = 0;     ///< of them: without those that are frozen
  int replicas = 0;
  int64_t accumulate = 1;  ///< global batches of a step
  uint64_t seed = 0;
  std::string optimizer = {};
  std::string schedule = {};
  /// Throws `kInvalidArgument` naming those there are when no evaluation of this training will have such a value
  /// (`EvaluationReport::value`): for callbacks that will ask for it, before the first step is made. For a name that is
  /// the model's own it evaluates batches until one has any. Null: nobody knows.
  std::function<void(const std::string& name)> need_evaluation_value = nullptr;
};

/// A phase that begins (`Trainer::add_phase`); the first one is what `TrainingStart` says.
struct PhaseStart {
  int64_t number = 0;       ///< from 1 for the second
  int64_t num_phases = 0;   ///< of the training
  int64_t step = 0;         ///< steps made before it
  int64_t num_trained = 0;  ///< elements that are not frozen
  std::string optimizer = {};
  std::string schedule = {};
};

/// A stretch of steps: since the last report, or the whole training. Times are of the steps and of waiting for their
/// batches; evaluations, checkpoints and callbacks are not in them.
struct TrainingReport {
  int64_t step = 0;         ///< steps made since the training began
  int64_t total_steps = 0;  ///< 0 when the data decide
  int64_t epoch = 0;
  int64_t steps = 0;  ///< of this stretch, those before a resume not included
  /// Sum of losses by sum of weights, over the stretch, its steps before a resume included, skipped ones not; NaN when
  /// there is no weight.
  double loss = 0;
  double learning_rate = 0;  ///< of the last step, by the trainer's schedule
  /// Of the last step, of groups of parameters that have schedules of their own. Default: none
  std::vector<GroupRate> learning_rates = {};
  double gradient_norm = 0;  ///< of the last step, before clipping
  int64_t rows = 0;
  int64_t tokens = 0;  ///< values of the feature that TrainerOptions names; 0 without one
  double seconds = 0;  ///< waiting for batches and steps
  double rows_per_s = 0;
  double tokens_per_s = 0;
  double input_wait_share = 0;      ///< waiting for batches, as a share of `seconds`
  double after_backward_share = 0;  ///< of the steps' own time: from the end of the last backward pass to the end
  StepPhases phases = {};           ///< seconds of the steps
  double callback_seconds = 0;      ///< of callbacks between the steps; not in `seconds`
  /// The model's further losses (`loss_1`, ...) and what it reports beside them, over the stretch as `loss` is.
  std::vector<MetricValue> metrics = {};
  int64_t skipped_updates = 0;      ///< since the training began or was resumed
  std::string last_skip = {};       ///< the reason of the last of them, which names its step and batch; or empty
  std::string limiting_stage = {};  ///< what the source says limits it; empty when it does not know

  /// Where the time of a step went, in one line: `1.38 s a step: waiting for input 0.3%, forward 34.1%, ...`. Shares
  /// are of `seconds` and `callback_seconds` together.
  std::string phases_text() const;
};

/// A stretch of time on the clock.
struct ClockSpan {
  std::chrono::steady_clock::time_point begin = {};
  std::chrono::steady_clock::time_point end = {};
};

/// One step that has ended.
struct StepEnd {
  const StepReport& step;
  const TrainingReport& since_report;  ///< with this step; `limiting_stage` is left empty
  std::vector<ClockSpan> waits = {};   ///< for the step's batches, one for each
  std::vector<ClockSpan> events = {};  ///< calls of callbacks since the step before, by event
};

struct EvaluationReport {
  int64_t step = 0;
  double loss = 0;  ///< sum of losses by sum of weights, over all rows; NaN when there is no weight
  double sum_loss = 0;
  double weight = 0;
  int64_t rows = 0;
  double seconds = 0;
  /// Those of the model, its further losses first, then TrainerOptions::metrics
  std::vector<MetricValue> metrics = {};

  /// The loss, by the name `loss`, or a metric. Throws `kInvalidArgument` naming those there are.
  double value(const std::string& name) const;
};

struct EpochEnd {
  int64_t epoch = 0;  ///< that has ended, from 0
  int64_t step = 0;
};

/// A model that was kept for its evaluation, and the list that it is on now.
struct ModelKept {
  std::string metric = {};
  BestModel model = {};
  std::vector<BestModel> best = {};  ///< the best first
};

/// How a training came to its end.
struct TrainingSummary {
  int64_t step = 0;
  bool stopped = false;                   ///< somebody asked for it
  bool data_ended = false;                ///< the source came to its end, perhaps before `total_steps`
  TrainingReport whole = {};              ///< all steps of this run
  std::optional<double> first_loss = {};  ///< of the training's first step; none when this run resumed it
  int threads = 0;                        ///< distinct threads that ran replicas
  std::string last_checkpoint = {};       ///< empty when there is none
  std::optional<EvaluationReport> last_evaluation = {};  ///< of this run
  std::vector<BestModel> best_models = {};               ///< the best first; empty unless they are kept
};

/// Is told what happens in a training, in this order: the training starts; a phase begins; each batch comes in; each
/// step ends, and when one is due the report over the steps since the last one; an evaluation ends; its model is kept
/// as one of the best; an epoch ends; a checkpoint is written; the training ends. Called on the thread that trains;
/// what it throws ends the training. Callbacks are called in the order in which they were added. A training that ends
/// by an error tells nobody: the error reaches the caller of `train`.
///
/// A callback with a state (the best value so far, ...) has a name and gives the state to checkpoints; it gets it back
/// before `train_starts` when a training goes on.
class Callback {
 public:
  virtual ~Callback() = default;
  virtual void train_starts(const TrainingStart&) {}
  virtual void phase_begins(const PhaseStart&) {}
  /// A batch that is about to be trained on, which may be changed for another of the same model (mixup, ...): `view`,
  /// and `owner`, which keeps its values alive. A pure function of the batch and its number keeps a training
  /// repeatable.
  virtual void batch_inputs(GlobalBatch&, int64_t /*number*/) {}
  virtual void step_ends(const StepEnd&) {}
  virtual void report(const TrainingReport&) {}
  virtual void evaluation_ends(const EvaluationReport&) {}
  virtual void model_kept(const ModelKept&) {}
  virtual void epoch_ends(const EpochEnd&) {}
  virtual void checkpoint_written(const std::string& /*path*/) {}
  virtual void train_ends(const TrainingSummary&) {}

  /// Asked between steps: true ends the training as its last step would.
  virtual bool finished() const { return false; }
  /// Under which its state is kept, unique in a training: `NAME` or `NAME(PARAMETERS)`. Default: empty, it has none.
  virtual std::string state_name() const { return {}; }
  virtual std::string save_state() const { return {}; }
  /// What `save_state` gave, perhaps of an earlier version of the program.
  virtual void restore_state(const std::string& /*state*/) {}
};

}  // namespace millrace

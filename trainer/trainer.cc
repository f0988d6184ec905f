#include "millrace/trainer/trainer.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/safetensors/writer.h"
#include "millrace/trainer/checkpoint/parameter_file.h"
#include "millrace/trainer/checkpoint/training_id.h"
#include "millrace/trainer/evaluation.h"
#include "millrace/trainer/metrics/metric_values.h"
#include "millrace/trainer/not_finite.h"

namespace millrace {
namespace {

template <typename T>
std::unique_ptr<T> needed(std::unique_ptr<T> part, std::string_view name) {
  if (!part) throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("a trainer needs {}", name));
  return part;
}

std::vector<TrainingPhase> first_phase(std::unique_ptr<Optimizer> optimizer, std::unique_ptr<Schedule> schedule) {
  std::vector<TrainingPhase> phases;
  phases.push_back({.optimizer = needed(std::move(optimizer), "an optimizer"),
                    .schedule = needed(std::move(schedule), "a schedule")});
  return phases;
}

// A checkpoint is compared by what it says: one of a phase that began elsewhere counts other updates.
class ScheduleOfPhase final : public Schedule {
 public:
  ScheduleOfPhase(int64_t first_step, std::unique_ptr<Schedule> schedule)
      : first_step_(first_step), schedule_(std::move(schedule)) {}
  double learning_rate(int64_t update) const override { return schedule_->learning_rate(update); }
  std::string describe() const override { return fmt::format("{} from step {}", schedule_->describe(), first_step_); }

 private:
  int64_t first_step_;
  std::unique_ptr<Schedule> schedule_;
};

}  // namespace

Trainer::Trainer(const Model& model, std::unique_ptr<Optimizer> optimizer, std::unique_ptr<Schedule> schedule,
                 TrainerOptions options)
    : model_(model),
      phases_(first_phase(std::move(optimizer), std::move(schedule))),
      options_((options.check(), std::move(options))),
      state_(model.layout(), *phases_[0].optimizer, options_.frozen),
      graph_(std::in_place, model, *phases_[0].optimizer, state_, options_.step),
      training_id_(new_training_id()) {
  phases_[0].frozen = options_.frozen;
  if (const auto& keep_best = options_.keep_best) best_.emplace(keep_best->folder, keep_best->models, training_id_);
  CheckpointFolder::Options checkpoints = options_.checkpoints;
  checkpoints.more_files = [this, more = std::move(checkpoints.more_files)](const std::string& directory) {
    if (more) more(directory);
    add_own_files(directory);
  };
  if (!options_.checkpoint_folder.empty()) checkpoints_.emplace(options_.checkpoint_folder, std::move(checkpoints));
  progress_.seed = options_.step.seed;
  progress_.accumulate = options_.accumulate;
  progress_.replicas = options_.step.replicas;
  progress_.model = model_.describe();
  progress_.gradients = options_.describe_gradients(options_.frozen);
  if (options_.loss_scaling) progress_.loss_scale.scale = options_.loss_scaling->initial;
  model.initialize(state_.weights.span(), progress_.seed);
}

bool Trainer::has_callback_state(const std::string& name) const {
  return std::ranges::any_of(callbacks_, [&](const auto& callback) { return callback->state_name() == name; });
}

void Trainer::add_callback(std::unique_ptr<Callback> callback) {
  const std::string name = callback->state_name();
  if (!name.empty() && has_callback_state(name)) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("there is a callback with the state '{}' already", name));
  }
  callbacks_.push_back(std::move(callback));
}

void Trainer::add_phase(TrainingPhase phase) {
  const int64_t before = phases_.back().first_step;
  if (phase.first_step <= before || (options_.total_steps > 0 && phase.first_step >= options_.total_steps)) {
    throw ErrorException(
        ErrorCode::kInvalidArgument,
        fmt::format("a phase begins after {} steps; that must be after {} and before {}", phase.first_step, before,
                    options_.total_steps > 0 ? fmt::to_string(options_.total_steps) : "the end"));
  }
  phase.optimizer = needed(std::move(phase.optimizer), "an optimizer for each phase");
  phase.schedule = std::make_unique<ScheduleOfPhase>(phase.first_step,
                                                     needed(std::move(phase.schedule), "a schedule for each phase"));
  (void)TrainedState(model_.layout(), *phase.optimizer, phase.frozen);  // what it refuses is said before the first step
  phases_.push_back(std::move(phase));
}

size_t Trainer::phase_at(int64_t step) const {
  size_t phase = 0;
  while (phase + 1 < phases_.size() && step > phases_[phase + 1].first_step) ++phase;
  return phase;
}

// `rule`: what is trained, and slots.
void Trainer::enter_phase(size_t phase, TrainedState rule) {
  threads_seen_ = std::max(threads_seen_, graph_->threads_seen());
  graph_.reset();
  phase_ = phase;
  options_.frozen = phases_[phase].frozen;
  state_.take_rule_of(std::move(rule));
  progress_.updates = 0;
  progress_.gradients = options_.describe_gradients(options_.frozen);
  graph_.emplace(model_, optimizer(), state_, options_.step);
}

bool Trainer::begin_due_phase() {
  const size_t next = phase_ + 1;
  if (next == phases_.size() || progress_.step < phases_[next].first_step) return false;
  enter_phase(next, TrainedState(model_.layout(), *phases_[next].optimizer, phases_[next].frozen));
  return true;
}

void Trainer::resume(const std::string& checkpoint) {
  const TrainingProgress there = read_progress(checkpoint);
  const size_t phase = phase_at(there.step);
  const auto need_same = [&](std::string_view what, const auto& before, const auto& now) {
    need_same_as_checkpoint(checkpoint, what, fmt::to_string(before), fmt::to_string(now));
  };
  need_same("seed", there.seed, options_.step.seed);
  need_same("accumulate", there.accumulate, options_.accumulate);
  // Earlier versions do not say.
  if (there.replicas != 0) need_same("replicas", there.replicas, int64_t{options_.step.replicas});
  if (!there.model.empty()) need_same("the model", there.model, model_.describe());
  if (!there.gradients.empty())
    need_same("gradients", there.gradients, options_.describe_gradients(phases_[phase].frozen));
  std::optional<PipelineState> source_state = read_source_state(checkpoint);
  std::string training_id = read_training_id(checkpoint).value_or(training_id_);
  std::optional<BestModels> best = best_;
  if (best) best->resume(checkpoint, training_id);
  const TrainingPhase& of = phases_[phase];
  const auto load_into = [&](TrainedState& state) {
    return load_checkpoint(checkpoint, model_.layout(), state, *of.optimizer, *of.schedule, options_.batches);
  };
  if (phase == phase_) {
    progress_ = load_into(state_);
  } else {
    TrainedState loaded(model_.layout(), *of.optimizer, of.frozen);
    const TrainingProgress progress = load_into(loaded);
    std::ranges::copy(loaded.weights.span(), state_.weights.data());
    enter_phase(phase, std::move(loaded));
    progress_ = progress;
  }
  progress_.replicas = options_.step.replicas;
  progress_.model = model_.describe();
  progress_.gradients = options_.describe_gradients(options_.frozen);
  source_state_ = std::move(source_state);
  best_ = std::move(best);
  training_id_ = std::move(training_id);
  last_checkpoint_ = checkpoint;
  resumed_ = true;
}

std::optional<std::string> Trainer::resume_newest() {
  if (!checkpoints_) {
    throw ErrorException(ErrorCode::kInvalidArgument, "there is no checkpoint_folder to look for the newest one in");
  }
  std::optional<std::string> newest = newest_checkpoint(options_.checkpoint_folder);
  if (newest) {
    resume(*newest);
  } else if (std::optional<std::string> begun = read_training_id(options_.checkpoint_folder)) {
    training_id_ = *std::move(begun);
    if (best_) best_.emplace(options_.keep_best->folder, options_.keep_best->models, training_id_);
  }
  return newest;
}

// Of the options' metrics the names are known; what the model measures beside its loss says the first batch that has
// any.
void Trainer::need_evaluation_value(const std::string& name) {
  if (!options_.evaluation) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("'{}' of an evaluation is needed, but there is nothing to evaluate on", name));
  }
  EvaluationReport known;
  if (options_.metrics) known.metrics = values_of(options_.metrics());
  const bool is_there =
      name == "loss" || std::ranges::find(known.metrics, name, &MetricValue::name) != known.metrics.end();
  if (is_there) return;
  const std::unique_ptr<BatchSource> source = options_.evaluation();
  StepResult measured;
  while (measured.metrics.empty()) {
    const std::optional<GlobalBatch> batch = source->next();
    if (!batch) break;
    measured = options_.metrics ? graph_->predict(batch->view).result : graph_->evaluate(batch->view);
  }
  append_metrics(measured, known.metrics);
  (void)known.value(name);
}

EvaluationReport Trainer::evaluate(BatchSource& source) { return *evaluate_until(source, nullptr); }

std::optional<EvaluationReport> Trainer::evaluate_until(BatchSource& source, const std::function<bool()>& stop) {
  std::vector<std::unique_ptr<Metric>> metrics;
  if (options_.metrics) metrics = options_.metrics();
  std::optional<EvaluationReport> report = millrace::evaluate(*graph_, source, metrics, stop);
  if (report) report->step = progress_.step;
  return report;
}

void Trainer::predict(BatchSource& source, const std::function<void(const GlobalBatch&, const Predictions&)>& take) {
  while (const std::optional<GlobalBatch> batch = source.next()) take(*batch, graph_->predict(batch->view));
}

void Trainer::offer_model(const EvaluationReport& report) {
  const KeepBest& keep = *options_.keep_best;
  const double value = keep.value ? keep.value(report) : report.value(keep.models.metric);
  const bool kept = best_->offer(report.step, value, [&](const std::string& directory) {
    if (checkpoints_) checkpoints_->begin(training_id_);
    if (keep.write) {
      keep.write(directory, weights());
    } else {
      write_safetensors((std::filesystem::path(directory) / "model.safetensors").string(),
                        parameter_tensors(model_.layout(), weights()), {{"format", "pt"}});
    }
    if (keep.more_files) keep.more_files(directory);
  });
  if (!kept) return;
  const std::vector<BestModel>& best = best_->models();
  const auto model = std::ranges::find(best, report.step, &BestModel::step);
  tell(&Callback::model_kept, ModelKept{.metric = keep.models.metric, .model = *model, .best = best});
}

void Trainer::add_own_files(const std::string& checkpoint) {
  write_training_id(checkpoint, training_id_);
  if (best_) {
    best_->save_into(checkpoint);
  } else if (!last_checkpoint_.empty()) {
    BestModels::carry_over(last_checkpoint_, checkpoint);
  }
}

std::map<std::string, std::string> Trainer::callback_states() const {
  std::map<std::string, std::string> states;
  for (const auto& callback : callbacks_) {
    if (!callback->state_name().empty()) states[callback->state_name()] = callback->save_state();
  }
  return states;
}

void Trainer::save_checkpoint(const std::map<std::string, std::string>& callback_states) {
  // An update can overflow though loss and gradients were finite; the steps after it are skipped, and would in time
  // replace every good checkpoint.
  const auto need_finite = [&](const std::string& what, const Parameter* broken) {
    if (broken == nullptr) return;
    throw ErrorException(
        ErrorCode::kNotFinite,
        fmt::format("after step {} {} of '{}' are not finite; no checkpoint was written{}", progress_.step, what,
                    broken->name, last_checkpoint_.empty() ? "" : ", the last one is " + last_checkpoint_));
  };
  need_finite("the weights", parameter_not_finite(model_.layout(), state_.weights));
  for (size_t slot = 0; slot < state_.slots.size(); ++slot) {
    need_finite(fmt::format("the optimizer's values '{}'", optimizer().slot_names()[slot]),
                parameter_not_finite(model_.layout(), state_.slots[slot], state_.trainable));
  }
  for (const auto& [name, state] : callback_states) progress_.callbacks[name] = state;
  last_checkpoint_ =
      checkpoints_->save(progress_, model_.layout(), state_, optimizer(), schedule(), options_.batches, source_state_);
  tell(&Callback::checkpoint_written, last_checkpoint_);
}

}  // namespace millrace

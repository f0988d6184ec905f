#include "millrace/trainer/trainer.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/safetensors/writer.h"
#include "millrace/trainer/checkpoint/not_finite.h"
#include "millrace/trainer/checkpoint/parameter_file.h"
#include "millrace/trainer/checkpoint/training_id.h"
#include "millrace/trainer/evaluation.h"
#include "millrace/trainer/metrics/metric_values.h"
#include "millrace/trainer/report_window.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

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

// A checkpoint is compared by what it says: one of a phase that began elsewhere has other updates behind it.
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

bool has_state(const std::vector<std::unique_ptr<Callback>>& callbacks, const std::string& name) {
  return std::ranges::any_of(callbacks, [&](const auto& callback) { return callback->state_name() == name; });
}

}  // namespace

// One call of `train`.
class Trainer::Run {
 public:
  Run(Trainer& trainer, BatchSource& source, const std::function<bool()>& stop_requested)
      : t_(trainer),
        source_(source),
        stop_requested_(stop_requested),
        options_(trainer.options_),
        progress_(trainer.progress_),
        since_report_(trainer.progress_.unreported),
        callbacks_at_start_(trainer.callback_time_),
        callbacks_before_(trainer.callback_time_) {}

  TrainingSummary run() {
    t_.events_.clear();
    if (options_.evaluation) need_end(*options_.evaluation());
    if (const auto& keep = options_.keep_best; keep && !keep->value) t_.need_evaluation_value(keep->models.metric);
    if (t_.resumed_) {
      t_.need_place_of_checkpoint(source_);
      restore_callbacks();
      t_.resumed_ = false;
    }
    t_.tell(&Callback::train_starts, TrainingStart{.step = progress_.step,
                                                   .total_steps = options_.total_steps,
                                                   .num_parameters = t_.model_.layout().num_elements(),
                                                   .num_trained = t_.state_.num_trained(t_.model_.layout()),
                                                   .replicas = options_.step.replicas,
                                                   .accumulate = options_.accumulate,
                                                   .seed = options_.step.seed,
                                                   .optimizer = t_.optimizer().describe(),
                                                   .schedule = t_.schedule().describe(),
                                                   .need_evaluation_value = [this](const std::string& name) {
                                                     t_.need_evaluation_value(name);
                                                   }});
    if (t_.checkpoints_) t_.source_state_ = source_.save();
    if (progress_.evaluation_due) evaluate();  // the run before was stopped in front of it, or within
    t_.graph_->discard();                      // what a training that ended by an error has left
    // Whether to stop is asked between steps only: a checkpoint holds no part of one.
    while (in_step_.batches > 0 || !done()) {
      const auto begin = Clock::now();
      std::optional<GlobalBatch> batch = source_.next();
      in_step_.waits.push_back({.begin = begin, .end = Clock::now()});
      in_step_.wait += in_step_.waits.back().end - begin;
      const bool epoch_ends = progress_.in_epoch && (!batch || batch->epoch != progress_.epoch);
      if (epoch_ends && in_step_.batches > 0) {
        step(nullptr);
        if (done()) break;
      }
      if (!batch) report_rest();
      if (epoch_ends) {
        end_epoch();
        if (done()) break;
      }
      if (!batch) {
        summary_.data_ended = true;
        break;
      }
      progress_.epoch = batch->epoch;
      progress_.in_epoch = true;
      if (in_step_.batches == 0) begin_due_phase();
      t_.tell(&Callback::batch_inputs, *batch, progress_.micro_batches + in_step_.batches);
      take(*batch);
    }
    report_rest();
    if (!stopping()) evaluate();
    checkpoint();
    summary_.step = progress_.step;
    callbacks_before_ = callbacks_at_start_;
    summary_.whole = make_report(whole_);
    summary_.whole.limiting_stage = source_.limiting_stage();
    summary_.threads = std::max(t_.threads_seen_, t_.graph_->threads_seen());
    summary_.last_checkpoint = t_.last_checkpoint_;
    if (t_.best_) summary_.best_models = t_.best_->models();
    t_.tell(&Callback::train_ends, summary_);
    return summary_;
  }

 private:
  void begin_due_phase() {
    if (!t_.begin_due_phase()) return;
    t_.tell(&Callback::phase_begins, PhaseStart{.number = static_cast<int64_t>(t_.phase_),
                                                .num_phases = static_cast<int64_t>(t_.phases_.size()),
                                                .step = progress_.step,
                                                .num_trained = t_.state_.num_trained(t_.model_.layout()),
                                                .optimizer = t_.optimizer().describe(),
                                                .schedule = t_.schedule().describe()});
  }

  void restore_callbacks() {
    std::map<std::string, std::string>& states = progress_.callbacks;
    for (const auto& callback : t_.callbacks_) {
      const std::string name = callback->state_name();
      // Before version 4 of the checkpoints a name had no parameters.
      const std::string earlier_name = name.substr(0, name.find('('));
      const bool earlier = !states.contains(name) && !has_state(t_.callbacks_, earlier_name);
      const auto state = states.find(earlier ? earlier_name : name);
      if (state == states.end()) continue;
      callback->restore_state(state->second);
      if (earlier) states.erase(state);
    }
  }

  // Once yes, always yes.
  bool stopping() {
    if (!summary_.stopped) summary_.stopped = stop_requested_ && stop_requested_();
    return summary_.stopped;
  }

  bool done() {
    if (stopping() || (options_.total_steps > 0 && progress_.step >= options_.total_steps)) return true;
    return std::ranges::any_of(t_.callbacks_, [](const auto& callback) { return callback->finished(); });
  }

  // What has been taken of a step so far.
  struct StepSoFar {
    int64_t batches = 0;
    int64_t rows = 0;
    int64_t tokens = 0;
    Clock::duration wait{0};
    std::vector<ClockSpan> waits;
    Clock::duration duration{0};
    std::optional<PipelineState> source_state;  // after the last batch
  };

  void take(const GlobalBatch& batch) {
    const int64_t rows = batch.view.rows();
    in_step_.rows += rows;
    if (!options_.token_feature.empty()) {
      in_step_.tokens += rows * batch.view.feature(options_.token_feature).row_size();
    }
    if (t_.checkpoints_) in_step_.source_state = source_.save();
    ++in_step_.batches;
    if (in_step_.batches == options_.accumulate) {
      step(&batch);
      return;
    }
    const auto begin = Clock::now();
    t_.graph_->accumulate(batch.view, numbers());
    in_step_.duration += Clock::now() - begin;
  }

  // Of the step on what has been taken.
  StepNumbers numbers() const {
    return {.step = progress_.step,
            .batch = progress_.micro_batches + in_step_.batches - 1,
            .update = progress_.updates + 1,
            .loss_scale = progress_.loss_scale.scale};
  }

  // `last`: its last batch; null when all of them have been accumulated.
  void step(const GlobalBatch* last) {
    learning_rate_ = t_.schedule().learning_rate(progress_.updates);
    const auto begin = Clock::now();
    const StepReport report = last != nullptr ? t_.graph_->train(last->view, numbers(), learning_rate_)
                                              : t_.graph_->update(numbers(), learning_rate_);
    in_step_.duration += Clock::now() - begin;
    ++progress_.step;
    progress_.evaluation_due = options_.evaluate_every > 0 && progress_.step % options_.evaluate_every == 0;
    const StepSoFar taken = std::exchange(in_step_, {});
    progress_.micro_batches += taken.batches;
    t_.source_state_ = taken.source_state;
    const bool scale_to_blame =
        options_.loss_scaling && progress_.loss_scale.step_ends(*options_.loss_scaling, report.updated);
    if (report.updated) {
      ++progress_.updates;
      progress_.skipped_in_a_row = 0;
    } else {
      ++skipped_;
      if (!scale_to_blame) ++progress_.skipped_in_a_row;
      last_skip_ = report.skip_reason;
    }
    gradient_norm_ = report.gradient_norm;
    learning_rates_ = report.learning_rates;
    for (ReportWindow* window : {&since_report_, &whole_}) {
      window->add(report, taken.wait, taken.duration, taken.rows, taken.tokens);
    }
    progress_.unreported = since_report_.losses();
    if (progress_.step == 1) summary_.first_loss = report.loss;
    const std::vector<ClockSpan> events = std::exchange(t_.events_, {});
    const TrainingReport so_far = make_report(since_report_);
    t_.tell(&Callback::step_ends,
            StepEnd{.step = report, .since_report = so_far, .waits = taken.waits, .events = events});
    // Which steps are reported together depends on their numbers only, so that a training in two parts reports the
    // same.
    if (progress_.step == 1 || progress_.step % options_.report_every == 0) {
      this->report();
      since_report_ = ReportWindow();
      progress_.unreported = {};
    }
    if (progress_.skipped_in_a_row > options_.most_skipped_in_a_row) {
      throw ErrorException(ErrorCode::kNotFinite, fmt::format("{} updates in a row were not finite, the last: {}",
                                                              progress_.skipped_in_a_row, report.skip_reason));
    }
    if (stopping()) return;
    if (progress_.evaluation_due) evaluate();
    if (options_.checkpoint_every > 0 && progress_.step % options_.checkpoint_every == 0) checkpoint();
  }

  void end_epoch() {
    const int64_t ended = progress_.epoch + 1;
    if (options_.evaluate_every == 0 && ended % options_.evaluate_every_epochs == 0) evaluate();
    if (stopping()) return;  // a resumed training ends the epoch
    t_.tell(&Callback::epoch_ends, EpochEnd{.epoch = progress_.epoch, .step = progress_.step});
    progress_.in_epoch = false;
    if (options_.checkpoint_every == 0 && ended % options_.checkpoint_every_epochs == 0) checkpoint();
  }

  TrainingReport make_report(const ReportWindow& window) const {
    TrainingReport report{.step = progress_.step,
                          .total_steps = options_.total_steps,
                          .epoch = progress_.epoch,
                          .learning_rate = learning_rate_,
                          .learning_rates = learning_rates_,
                          .gradient_norm = gradient_norm_,
                          .callback_seconds = seconds(t_.callback_time_ - callbacks_before_),
                          .skipped_updates = skipped_,
                          .last_skip = last_skip_};
    window.fill(report);
    return report;
  }

  void report() {
    TrainingReport report = make_report(since_report_);
    report.limiting_stage = source_.limiting_stage();
    t_.tell(&Callback::report, report);
    callbacks_before_ = t_.callback_time_;
    reported_at_ = progress_.step;
  }

  // The steps at the end that no report was due for. They stay unreported in the checkpoint: a training that goes on
  // from it reports as if it had not ended here.
  void report_rest() {
    if (since_report_.steps() > 0 && reported_at_ != progress_.step) report();
  }

  void evaluate() {
    if (!options_.evaluation || evaluated_at_ == progress_.step) return;
    const std::map<std::string, std::string> callback_states = t_.callback_states();
    try {
      const std::unique_ptr<BatchSource> source = options_.evaluation();
      const std::optional<EvaluationReport> report = t_.evaluate_until(*source, [this] { return stopping(); });
      if (!report) return;
      evaluated_at_ = progress_.step;
      summary_.last_evaluation = report;
      t_.tell(&Callback::evaluation_ends, *report);
      if (t_.best_) t_.offer_model(*report);
    } catch (...) {
      save_before_evaluation(callback_states);
      throw;
    }
    saved_at_ = -1;  // one of this step does not know of the evaluation
    progress_.evaluation_due = false;
  }

  // The steps before an evaluation that failed; it is what tells what went wrong, also where this cannot be written.
  void save_before_evaluation(const std::map<std::string, std::string>& callback_states) noexcept {
    progress_.evaluation_due = true;
    if (!t_.checkpoints_ || saved_at_ == progress_.step || progress_.step == 0) return;
    try {
      t_.save_checkpoint(callback_states);
    } catch (...) {  // NOLINT(bugprone-empty-catch)
    }
  }

  void checkpoint() {
    if (!t_.checkpoints_ || saved_at_ == progress_.step) return;
    saved_at_ = progress_.step;
    t_.save_checkpoint(t_.callback_states());
  }

  Trainer& t_;
  BatchSource& source_;
  const std::function<bool()>& stop_requested_;
  const TrainerOptions& options_;
  TrainingProgress& progress_;
  TrainingSummary summary_;
  StepSoFar in_step_;
  ReportWindow since_report_;
  ReportWindow whole_;
  std::chrono::nanoseconds callbacks_at_start_;
  std::chrono::nanoseconds callbacks_before_;  // the window
  double learning_rate_ = 0;
  double gradient_norm_ = 0;
  std::vector<GroupRate> learning_rates_;
  int64_t skipped_ = 0;
  std::string last_skip_;
  int64_t reported_at_ = -1;
  int64_t evaluated_at_ = -1;
  int64_t saved_at_ = -1;
};

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

void Trainer::add_callback(std::unique_ptr<Callback> callback) {
  const std::string name = callback->state_name();
  if (!name.empty() && has_state(callbacks_, name)) {
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

// What a source cannot say is not compared.
void Trainer::need_place_of_checkpoint(const BatchSource& source) const {
  if (!source_state_) return;
  const std::optional<PipelineState> place = source.save();
  if (!place || place->serialize() == source_state_->serialize()) return;
  throw ErrorException(ErrorCode::kState,
                       fmt::format("the source does not stand where the checkpoint {} ends: a pipeline goes on from "
                                   "Trainer::source_state()",
                                   last_checkpoint_));
}

TrainingSummary Trainer::train(BatchSource& source, const std::function<bool()>& stop_requested) {
  if (best_) best_->check_folder();
  if (checkpoints_) checkpoints_->check_folder(training_id_, !last_checkpoint_.empty());
  return Run(*this, source, stop_requested).run();
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
    if (keep.write) {
      keep.write(directory, weights());
    } else {
      write_safetensors((std::filesystem::path(directory) / "model.safetensors").string(),
                        parameter_tensors(model_.layout(), weights()), {{"format", "pt"}});
    }
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

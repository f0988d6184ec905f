#include "trainer/trainer.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "formats/error.h"
#include "formats/safetensors/writer.h"
#include "trainer/not_finite.h"
#include "trainer/parameter_file.h"
#include "trainer/training_id.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

// A loss over everything that was added up; NaN when nothing had a weight.
double mean_of(const StepResult& total, size_t loss) {
  const LossSum sum = total.loss(static_cast<int>(loss));
  return sum.weight == 0 ? std::numeric_limits<double>::quiet_NaN() : sum.sum / sum.weight;
}

// The losses behind the first, and what the model measures beside them.
void add_metrics(const StepResult& total, std::vector<MetricValue>& metrics) {
  for (size_t loss = 1; loss <= total.more_losses.size(); ++loss) {
    metrics.push_back({.name = fmt::format("loss_{}", loss), .value = mean_of(total, loss)});
  }
  for (const MetricSum& metric : total.metrics) metrics.push_back({.name = metric.name, .value = metric.value()});
}

// What a stretch of steps adds up to.
class Stretch {
 public:
  // `losses`: of steps that belong to the stretch, but ran before a resume.
  explicit Stretch(StepResult losses = {}) : losses_(std::move(losses)) {}

  void add(const StepReport& report, Clock::duration wait, Clock::duration step, int64_t rows, int64_t tokens) {
    ++steps_;
    if (report.updated) losses_.add(report.result);  // a skipped step's loss may be no number
    wait_ += seconds(wait);
    step_ += seconds(step);
    rows_ += rows;
    tokens_ += tokens;
    graph_ += seconds(report.timeline.total);
    after_backward_ += seconds(report.timeline.after_backward);
    phases_.add(report.phases);
  }

  int64_t steps() const { return steps_; }
  const StepResult& losses() const { return losses_; }

  void fill(TrainingReport& report) const {
    report.steps = steps_;
    report.loss = mean_of(losses_, 0);
    report.rows = rows_;
    report.tokens = tokens_;
    report.seconds = wait_ + step_;
    if (report.seconds > 0) {
      report.rows_per_s = static_cast<double>(rows_) / report.seconds;
      report.tokens_per_s = static_cast<double>(tokens_) / report.seconds;
      report.input_wait_share = wait_ / report.seconds;
    }
    if (graph_ > 0) report.after_backward_share = after_backward_ / graph_;
    report.phases = phases_;
    add_metrics(losses_, report.metrics);
  }

 private:
  StepResult losses_;
  int64_t steps_ = 0;
  double wait_ = 0;
  double step_ = 0;
  double graph_ = 0;
  double after_backward_ = 0;
  StepPhases phases_;
  int64_t rows_ = 0;
  int64_t tokens_ = 0;
};

template <typename T>
std::unique_ptr<T> needed(std::unique_ptr<T> part, std::string_view name) {
  if (!part) throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("a trainer needs {}", name));
  return part;
}

std::vector<MetricValue> values_of(const std::vector<std::unique_ptr<Metric>>& metrics) {
  std::vector<MetricValue> values;
  values.reserve(metrics.size());
  for (const auto& metric : metrics) values.push_back({.name = metric->name(), .value = metric->value()});
  return values;
}

// In logs and where a metric is asked for, a name stands for one number.
void check_names(const std::vector<MetricValue>& metrics) {
  std::set<std::string> names = {"loss"};
  for (const MetricValue& metric : metrics) {
    if (names.insert(metric.name).second) continue;
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("an evaluation has two numbers with the name '{}'", metric.name));
  }
}

void check(const TrainerOptions& options) {
  const auto need = [](bool holds, std::string message) {
    if (!holds) throw ErrorException(ErrorCode::kInvalidArgument, std::move(message));
  };
  need(options.accumulate >= 1, fmt::format("accumulate is {}; at least 1 is needed", options.accumulate));
  need(options.total_steps >= 0, fmt::format("total_steps is {}; at least 0 is needed", options.total_steps));
  need(options.report_every >= 1, fmt::format("report_every is {}; at least 1 is needed", options.report_every));
  need(options.evaluate_every >= 0, fmt::format("evaluate_every is {}; at least 0 is needed", options.evaluate_every));
  need(options.evaluate_every == 0 || options.evaluation, "evaluate_every is set, but there is nothing to evaluate on");
  need(!options.keep_best || options.evaluation, "keep_best is set, but there is nothing to evaluate on");
  need(options.checkpoint_every >= 0,
       fmt::format("checkpoint_every is {}; at least 0 is needed", options.checkpoint_every));
  need(options.checkpoint_every == 0 || !options.checkpoint_folder.empty(),
       "checkpoint_every is set, but there is no checkpoint_folder");
  need(!options.metrics || options.evaluation, "metrics are set, but there is nothing to evaluate on");
  if (options.metrics) check_names(values_of(options.metrics()));
  if (options.loss_scaling) options.loss_scaling->check();
  need(options.most_skipped_in_a_row >= 0,
       fmt::format("most_skipped_in_a_row is {}; at least 0 is needed", options.most_skipped_in_a_row));
}

bool has_state(const std::vector<std::unique_ptr<Callback>>& callbacks, const std::string& name) {
  return std::ranges::any_of(callbacks, [&](const auto& callback) { return callback->state_name() == name; });
}

std::string to_string(Normalization mode) {
  switch (mode) {
    case Normalization::kGlobalMean: return "global_mean";
    case Normalization::kMeanOfReplicaMeans: return "mean_of_replica_means";
    case Normalization::kSumOfReplicaMeans: return "sum_of_replica_means";
    case Normalization::kScaled: return "scaled";
  }
  return "";
}

// How gradients are made into updates, beside the optimizer.
std::string gradients_text(const TrainerOptions& options) {
  const GradientNormalization& normalization = options.step.normalization;
  std::string text = to_string(normalization.mode);
  if (normalization.mode == Normalization::kScaled) text += fmt::format("({})", normalization.scale);
  if (const auto& clipping = options.step.clipping) {
    text += fmt::format(", clipped to {} ({}{})", clipping->norm, clipping->form == ClipForm::kTf ? "tf" : "torch",
                        clipping->per_replica ? ", each replica" : "");
  }
  if (!options.frozen.empty()) text += fmt::format(", without '{}'", options.frozen);
  if (options.step.activations == ActivationStorage::kBfloat16) text += ", activations in bfloat16";
  if (options.loss_scaling) text += ", " + options.loss_scaling->describe();
  return text;
}

// The first parameter whose values are not all finite; those that are not `included` may be anything.
const Parameter* parameter_not_finite(const ParameterLayout& layout, const FlatBuffer& buffer,
                                      std::span<const uint8_t> included = {}) {
  for (size_t id = 0; id < layout.parameters().size(); ++id) {
    if (!included.empty() && included[id] == 0) continue;
    const Parameter& parameter = layout.parameters()[id];
    const std::span<const float> values =
        buffer.span().subspan(static_cast<size_t>(parameter.offset), static_cast<size_t>(parameter.size));
    if (first_not_finite(std::as_bytes(values))) return &parameter;
  }
  return nullptr;
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
    if (std::exchange(t_.callbacks_behind_, false)) restore_callbacks();
    t_.tell(&Callback::train_starts, TrainingStart{.step = progress_.step,
                                                   .total_steps = options_.total_steps,
                                                   .num_parameters = t_.model_.layout().num_elements(),
                                                   .num_trained = t_.state_.num_trained(t_.model_.layout()),
                                                   .replicas = options_.step.replicas,
                                                   .accumulate = options_.accumulate,
                                                   .seed = options_.step.seed,
                                                   .optimizer = t_.optimizer_->describe(),
                                                   .schedule = t_.schedule_->describe()});
    if (t_.checkpoints_) t_.source_state_ = source_.save();
    if (progress_.evaluation_due) evaluate();  // the run before was stopped in front of it, or within
    t_.graph_.discard();                       // what a training that ended by an error has left
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
      if (!batch) break;
      progress_.epoch = batch->epoch;
      progress_.in_epoch = true;
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
    summary_.threads = t_.graph_.threads_seen();
    summary_.last_checkpoint = t_.last_checkpoint_;
    if (t_.best_) summary_.best_models = t_.best_->models();
    t_.tell(&Callback::train_ends, summary_);
    return summary_;
  }

 private:
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
    std::optional<PipelineState> source_state;  // behind the last batch
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
    t_.graph_.accumulate(batch.view, numbers());
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
    learning_rate_ = t_.schedule_->learning_rate(progress_.updates);
    const auto begin = Clock::now();
    const StepReport report = last != nullptr ? t_.graph_.train(last->view, numbers(), learning_rate_)
                                              : t_.graph_.update(numbers(), learning_rate_);
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
    for (Stretch* stretch : {&since_report_, &whole_}) {
      stretch->add(report, taken.wait, taken.duration, taken.rows, taken.tokens);
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
      since_report_ = Stretch();
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
    if (options_.evaluate_every == 0) evaluate();
    if (stopping()) return;  // a resumed training ends the epoch
    t_.tell(&Callback::epoch_ends, EpochEnd{.epoch = progress_.epoch, .step = progress_.step});
    progress_.in_epoch = false;
    if (options_.checkpoint_every == 0) checkpoint();
  }

  TrainingReport make_report(const Stretch& stretch) const {
    TrainingReport report{.step = progress_.step,
                          .total_steps = options_.total_steps,
                          .epoch = progress_.epoch,
                          .learning_rate = learning_rate_,
                          .learning_rates = learning_rates_,
                          .gradient_norm = gradient_norm_,
                          .callback_seconds = seconds(t_.callback_time_ - callbacks_before_),
                          .skipped_updates = skipped_,
                          .last_skip = last_skip_};
    stretch.fill(report);
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
    const std::unique_ptr<BatchSource> source = options_.evaluation();
    const std::optional<EvaluationReport> report = t_.evaluate_until(*source, [this] { return stopping(); });
    if (!report) return;
    evaluated_at_ = progress_.step;
    saved_at_ = -1;  // one of this step does not know of the evaluation
    progress_.evaluation_due = false;
    summary_.last_evaluation = report;
    t_.tell(&Callback::evaluation_ends, *report);
    if (t_.best_) t_.offer_model(*report);
  }

  void checkpoint() {
    if (!t_.checkpoints_ || saved_at_ == progress_.step) return;
    saved_at_ = progress_.step;
    t_.save_checkpoint();
  }

  Trainer& t_;
  BatchSource& source_;
  const std::function<bool()>& stop_requested_;
  const TrainerOptions& options_;
  TrainingProgress& progress_;
  TrainingSummary summary_;
  StepSoFar in_step_;
  Stretch since_report_;
  Stretch whole_;
  std::chrono::nanoseconds callbacks_at_start_;
  std::chrono::nanoseconds callbacks_before_;  // the stretch
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
      optimizer_(needed(std::move(optimizer), "an optimizer")),
      schedule_(needed(std::move(schedule), "a schedule")),
      options_((check(options), std::move(options))),
      state_(model.layout(), *optimizer_, options_.frozen),
      graph_(model, *optimizer_, state_, options_.step),
      training_id_(new_training_id()) {
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
  progress_.gradients = gradients_text(options_);
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

void Trainer::resume(const std::string& checkpoint) {
  const TrainingProgress there = read_progress(checkpoint);
  const auto need_same = [&](std::string_view what, auto before, auto now) {
    if (before == now) return;
    throw ErrorException(
        {.code = ErrorCode::kInvalidArgument,
         .message = fmt::format("the checkpoint was made with {} {}, this run has {}", what, before, now),
         .shard = checkpoint});
  };
  need_same("seed", there.seed, options_.step.seed);
  need_same("accumulate", there.accumulate, options_.accumulate);
  // Earlier versions do not say.
  if (there.replicas != 0) need_same("replicas", there.replicas, int64_t{options_.step.replicas});
  if (!there.model.empty()) need_same("the model", there.model, model_.describe());
  if (!there.gradients.empty()) need_same("gradients", there.gradients, gradients_text(options_));
  std::optional<PipelineState> source_state = read_source_state(checkpoint);
  std::string training_id = read_training_id(checkpoint).value_or(training_id_);
  std::optional<BestModels> best = best_;
  if (best) best->resume(checkpoint, training_id);
  progress_ = load_checkpoint(checkpoint, model_.layout(), state_, *optimizer_, *schedule_, options_.batches);
  progress_.replicas = options_.step.replicas;
  progress_.model = model_.describe();
  progress_.gradients = gradients_text(options_);
  source_state_ = std::move(source_state);
  best_ = std::move(best);
  training_id_ = std::move(training_id);
  last_checkpoint_ = checkpoint;
  callbacks_behind_ = true;
}

TrainingSummary Trainer::train(BatchSource& source, const std::function<bool()>& stop_requested) {
  if (best_) best_->check_folder();
  return Run(*this, source, stop_requested).run();
}

EvaluationReport Trainer::evaluate(BatchSource& source) { return *evaluate_until(source, nullptr); }

std::optional<EvaluationReport> Trainer::evaluate_until(BatchSource& source, const std::function<bool()>& stop) {
  EvaluationReport report{.step = progress_.step};
  std::vector<std::unique_ptr<Metric>> metrics;
  if (options_.metrics) metrics = options_.metrics();
  StepResult total;
  const auto begin = Clock::now();
  while (const std::optional<GlobalBatch> batch = source.next()) {
    if (stop && stop()) return std::nullopt;
    if (metrics.empty()) {
      total.add(graph_.evaluate(batch->view));
    } else {
      const Predictions predictions = graph_.predict(batch->view);
      for (const auto& metric : metrics) metric->add(batch->view, predictions);
      total.add(predictions.result);
    }
    report.rows += batch->view.rows();
  }
  report.sum_loss = total.sum_loss;
  report.weight = total.weight;
  report.loss = mean_of(total, 0);
  add_metrics(total, report.metrics);
  for (MetricValue& metric : values_of(metrics)) report.metrics.push_back(std::move(metric));
  check_names(report.metrics);
  report.seconds = seconds(Clock::now() - begin);
  return report;
}

void Trainer::predict(BatchSource& source, const std::function<void(const GlobalBatch&, const Predictions&)>& take) {
  while (const std::optional<GlobalBatch> batch = source.next()) take(*batch, graph_.predict(batch->view));
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

void Trainer::save_checkpoint() {
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
    need_finite(fmt::format("the optimizer's values '{}'", optimizer_->slot_names()[slot]),
                parameter_not_finite(model_.layout(), state_.slots[slot], state_.trainable));
  }
  for (const auto& callback : callbacks_) {
    if (!callback->state_name().empty()) progress_.callbacks[callback->state_name()] = callback->save_state();
  }
  last_checkpoint_ =
      checkpoints_->save(progress_, model_.layout(), state_, *optimizer_, *schedule_, options_.batches, source_state_);
  tell(&Callback::checkpoint_written, last_checkpoint_);
}

}  // namespace millrace

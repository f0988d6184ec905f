// The loop of Trainer::train.
#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/evaluation.h"
#include "millrace/trainer/report_window.h"
#include "millrace/trainer/trainer.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

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
    // A training that never had a batch leaves everything as it was.
    if (progress_.step > 0 || !summary_.data_ended) {
      if (!stopping()) evaluate();
      checkpoint();
    }
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
      const bool earlier = !states.contains(name) && !t_.has_callback_state(earlier_name);
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
    for (const std::string& feature : options_.token_features) {
      in_step_.tokens += rows * batch.view.feature(feature).row_size();
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

}  // namespace millrace

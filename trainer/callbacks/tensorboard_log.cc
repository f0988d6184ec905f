#include "millrace/trainer/callbacks/tensorboard_log.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {

TensorboardLog::TensorboardLog(TensorboardLogOptions options) : options_(std::move(options)) {
  if (options_.histogram_every >= 1) return;
  throw ErrorException(ErrorCode::kInvalidArgument,
                       fmt::format("histogram_every is {}; at least 1 is needed", options_.histogram_every));
}

void TensorboardLog::train_starts(const TrainingStart& start) { writer_.emplace(options_.folder, start.step); }

void TensorboardLog::step_ends(const StepEnd& end) {
  step_seconds_.push_back(std::chrono::duration<float>(end.step.timeline.total).count());
  if (options_.layout != nullptr && end.since_report.step % options_.histogram_every == 0) {
    write_weights(end.since_report.step);
  }
}

void TensorboardLog::write_weights(int64_t step) {
  for (const Parameter& parameter : options_.layout->parameters()) {
    writer_->histogram(
        step, "weights/" + parameter.name,
        options_.weights.subspan(static_cast<size_t>(parameter.offset), static_cast<size_t>(parameter.size)));
  }
  writer_->flush();
}

void TensorboardLog::report(const TrainingReport& report) {
  // A stretch without weight has no loss, and no point in a picture.
  const auto scalar = [&](const std::string& tag, double value) {
    if (!std::isnan(value)) writer_->scalar(report.step, tag, value);
  };
  scalar("train/loss", report.loss);
  scalar("train/learning_rate", report.learning_rate);
  for (const GroupRate& group : report.learning_rates) {
    scalar("train/learning_rate/" + group.parameters, group.learning_rate);
  }
  scalar("train/gradient_norm", report.gradient_norm);
  scalar("train/rows_per_second", report.rows_per_s);
  if (report.tokens > 0) scalar("train/tokens_per_second", report.tokens_per_s);
  for (const MetricValue& metric : report.metrics) scalar("train/" + metric.name, metric.value);
  const double steps = static_cast<double>(std::max<int64_t>(1, report.steps));
  scalar("time/step", report.seconds / steps);
  scalar("time/input", report.seconds * report.input_wait_share / steps);
  scalar("time/forward", report.phases.forward / steps);
  scalar("time/backward", report.phases.backward / steps);
  scalar("time/reduce", report.phases.reduce / steps);
  scalar("time/optimizer", report.phases.optimizer / steps);
  scalar("time/callbacks", report.callback_seconds / steps);
  writer_->histogram(report.step, "time/steps", step_seconds_);
  step_seconds_.clear();
  writer_->flush();
}

void TensorboardLog::evaluation_ends(const EvaluationReport& report) {
  if (!std::isnan(report.loss)) writer_->scalar(report.step, "evaluation/loss", report.loss);
  for (const MetricValue& metric : report.metrics) {
    if (!std::isnan(metric.value)) writer_->scalar(report.step, "evaluation/" + metric.name, metric.value);
  }
  writer_->flush();
}

void TensorboardLog::train_ends(const TrainingSummary& summary) {
  if (options_.layout != nullptr) write_weights(summary.step);
}

}  // namespace millrace

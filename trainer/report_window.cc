#include "millrace/trainer/report_window.h"

#include "millrace/trainer/metrics/metric_values.h"

namespace millrace {
namespace {

double seconds(std::chrono::nanoseconds duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

void ReportWindow::add(const StepReport& report, std::chrono::nanoseconds wait, std::chrono::nanoseconds step,
                       int64_t rows, int64_t tokens) {
  ++steps_;
  if (report.updated) losses_.add(report.result);
  wait_ += seconds(wait);
  step_ += seconds(step);
  rows_ += rows;
  tokens_ += tokens;
  graph_ += seconds(report.timeline.total);
  after_backward_ += seconds(report.timeline.after_backward);
  phases_.add(report.phases);
}

void ReportWindow::fill(TrainingReport& report) const {
  report.steps = steps_;
  report.loss = reported_loss(losses_, 0);
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
  append_metrics(losses_, report.metrics);
}

}  // namespace millrace

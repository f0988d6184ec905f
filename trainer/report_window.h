#pragma once

#include <chrono>
#include <cstdint>

#include "millrace/trainer/callback.h"
#include "millrace/trainer/step/step_graph.h"

namespace millrace {

/// What the steps add up to that a report is about: those since the last one, or all of a training.
class ReportWindow {
 public:
  /// `losses`: of steps that belong to the window, but ran before a resume; they are in no other number.
  explicit ReportWindow(StepResult losses = {}) : losses_(std::move(losses)) {}

  /// A step with all its batches: `wait` for them, `step` for the work on them. A skipped step counts in all but the
  /// losses, which may be no numbers.
  void add(const StepReport& report, std::chrono::nanoseconds wait, std::chrono::nanoseconds step, int64_t rows,
           int64_t tokens);

  int64_t steps() const { return steps_; }
  const StepResult& losses() const { return losses_; }
  /// Sets what the window knows: steps, loss, rows, tokens, times and their shares, metrics.
  void fill(TrainingReport& report) const;

 private:
  StepResult losses_;
  int64_t steps_ = 0;
  double wait_ = 0;  // seconds, as all that follow
  double step_ = 0;
  double graph_ = 0;
  double after_backward_ = 0;
  StepPhases phases_;
  int64_t rows_ = 0;
  int64_t tokens_ = 0;
};

}  // namespace millrace

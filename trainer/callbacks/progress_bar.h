#pragma once

#include <chrono>
#include <cstdio>
#include <optional>
#include <string>

#include "millrace/trainer/callback.h"

namespace millrace {

/// Shows a training to whoever watches. On a terminal one line that is redrawn, at most ten times a second: a bar,
/// loss, tokens/s, the share of time spent waiting for input, the time left. Elsewhere a plain line for each report.
/// With each report comes a line that says where the time of its steps went (`TrainingReport::phases_text`).
/// When more than 2% of the time goes into waiting, the line names the stage that limits the input, if the source knows
/// one.
class ProgressBar final : public Callback {
 public:
  /// `stream` stays the caller's. `terminal`: Default: whether the stream is one.
  explicit ProgressBar(std::FILE* stream = stderr, std::optional<bool> terminal = std::nullopt);
  /// Ends a line that was drawn, so that an error's message gets its own.
  ~ProgressBar() override;
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void train_starts(const TrainingStart& start) override;
  void phase_begins(const PhaseStart& start) override;
  void step_ends(const StepEnd& end) override;
  void report(const TrainingReport& report) override;
  void evaluation_ends(const EvaluationReport& report) override;
  void train_ends(const TrainingSummary& summary) override;

 private:
  std::string line_of(const TrainingReport& report) const;
  size_t columns() const;
  void print_line(const std::string& line);
  void draw(const TrainingReport& report);

  std::FILE* stream_;
  bool terminal_;
  int64_t first_step_ = 0;
  size_t drawn_ = 0;            // characters of the line on the terminal
  std::string limiting_stage_;  // of the last report
  std::chrono::steady_clock::time_point started_;
  std::chrono::steady_clock::time_point redraw_at_;
};

}  // namespace millrace

#include "millrace/trainer/callbacks/progress_bar.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBarWidth = 20;
constexpr double kWaitWorthNaming = 0.02;
constexpr auto kRedrawInterval = std::chrono::milliseconds(100);

// 12345678 as 12,345,678: readable in any locale.
std::string grouped(double number) {
  std::string digits = fmt::format("{:.0f}", number);
  for (int place = static_cast<int>(digits.size()) - 3; place > 0; place -= 3) {
    digits.insert(static_cast<size_t>(place), 1, ',');
  }
  return digits;
}

// The stage to blame for the waiting, in words, or nothing: `consumer` means that the input as a whole kept up.
std::string limit_text(double input_wait_share, const std::string& limiting_stage) {
  if (input_wait_share <= kWaitWorthNaming || limiting_stage.empty() || limiting_stage == "consumer") return {};
  return fmt::format(" (limited by {})", limiting_stage);
}

std::string clock_text(double seconds) {
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace

ProgressBar::ProgressBar(std::FILE* stream, std::optional<bool> terminal)
    : stream_(stream), terminal_(terminal.value_or(::isatty(::fileno(stream)) == 1)) {}

std::string ProgressBar::line_of(const TrainingReport& report) const {
  std::string line = report.total_steps > 0 ? fmt::format("step {}/{}", report.step, report.total_steps)
                                            : fmt::format("step {}", report.step);
  line += fmt::format("  epoch {}  loss {}  lr {:.3g}", report.epoch, value_text(report.loss), report.learning_rate);
  line += report.tokens > 0 ? fmt::format("  {} tokens/s", grouped(report.tokens_per_s))
                            : fmt::format("  {} rows/s", grouped(report.rows_per_s));
  line += fmt::format("  waiting for input {:.1f}%", 100 * report.input_wait_share);
  line += limit_text(report.input_wait_share, limiting_stage_);
  if (report.skipped_updates > 0) line += fmt::format("  {} updates skipped", report.skipped_updates);
  return line;
}

ProgressBar::~ProgressBar() {
  if (drawn_ == 0) return;
  fmt::print(stream_, "\n");
  std::fflush(stream_);
}

// Of the terminal: a longer line would be broken, and a carriage return goes back to the start of its last part only.
size_t ProgressBar::columns() const {
  winsize size = {};
  if (::ioctl(::fileno(stream_), TIOCGWINSZ, &size) != 0 || size.ws_col < 2) return std::string::npos;
  return size.ws_col - 1U;
}

void ProgressBar::print_line(const std::string& line) {
  if (drawn_ > 0) fmt::print(stream_, "\r{:{}}\r", "", drawn_);
  drawn_ = 0;
  fmt::print(stream_, "{}\n", line);
  std::fflush(stream_);
}

void ProgressBar::draw(const TrainingReport& report) {
  std::string line = line_of(report);
  if (report.total_steps > first_step_) {
    const auto done = static_cast<double>(report.step) / static_cast<double>(report.total_steps);
    const int filled = std::clamp(static_cast<int>(done * kBarWidth), 0, kBarWidth);
    const double elapsed = std::chrono::duration<double>(Clock::now() - started_).count();
    const auto steps = static_cast<double>(std::max<int64_t>(1, report.step - first_step_));
    const double left = elapsed / steps * static_cast<double>(report.total_steps - report.step);
    line = fmt::format("[{:-<{}}] {}  {} left", std::string(static_cast<size_t>(filled), '#'), kBarWidth, line,
                       clock_text(left));
  }
  line = line.substr(0, columns());
  // As long as the last one, so that nothing of it stays.
  fmt::print(stream_, "\r{:{}}", line, std::min(drawn_, columns()));
  std::fflush(stream_);
  drawn_ = line.size();
}

void ProgressBar::train_starts(const TrainingStart& start) {
  first_step_ = start.step;
  started_ = Clock::now();
  redraw_at_ = started_;
  const std::string trained =
      start.num_trained < start.num_parameters ? grouped(static_cast<double>(start.num_trained)) + " of " : "";
  print_line(fmt::format("training {}{} parameters on {} replicas{}{}{}", trained,
                         grouped(static_cast<double>(start.num_parameters)), start.replicas,
                         start.total_steps > 0 ? fmt::format(", {} steps", start.total_steps) : "",
                         start.accumulate > 1 ? fmt::format(" of {} batches", start.accumulate) : "",
                         start.step > 0 ? fmt::format(", from step {}", start.step) : ""));
}

void ProgressBar::phase_begins(const PhaseStart& start) {
  print_line(fmt::format("phase {} of {} from step {}: {} parameters, {}, {}", start.number + 1, start.num_phases,
                         start.step + 1, grouped(static_cast<double>(start.num_trained)), start.optimizer,
                         start.schedule));
}

void ProgressBar::step_ends(const StepEnd& end) {
  if (!end.step.skip_reason.empty()) print_line(end.step.skip_reason);
  if (!terminal_ || Clock::now() < redraw_at_) return;
  redraw_at_ = Clock::now() + kRedrawInterval;
  draw(end.since_report);
}

void ProgressBar::report(const TrainingReport& report) {
  limiting_stage_ = report.limiting_stage;
  if (!terminal_) print_line(line_of(report));
  if (report.seconds > 0) print_line(fmt::format("  step {}: {}", report.step, report.phases_text()));
  if (terminal_) draw(report);
}

void ProgressBar::evaluation_ends(const EvaluationReport& report) {
  std::string values = fmt::format("loss {}", value_text(report.loss));
  for (const MetricValue& metric : report.metrics)
    values += fmt::format(", {} {}", metric.name, value_text(metric.value));
  print_line(fmt::format("evaluation at step {}: {} over {} rows in {:.1f} s", report.step, values,
                         grouped(static_cast<double>(report.rows)), report.seconds));
}

void ProgressBar::train_ends(const TrainingSummary& summary) {
  const TrainingReport& whole = summary.whole;
  const bool early = summary.data_ended && summary.step < whole.total_steps;
  std::string line =
      fmt::format("{} after {}{} steps in {}: ",
                  summary.stopped ? "stopped"
                  : early         ? "the data ended"
                                  : "done",
                  summary.step, early ? fmt::format(" of {}", whole.total_steps) : "", clock_text(whole.seconds));
  line += whole.tokens > 0 ? fmt::format("{} tokens/s, ", grouped(whole.tokens_per_s))
                           : fmt::format("{} rows/s, ", grouped(whole.rows_per_s));
  line += fmt::format("waiting for input {:.2f}% of the time", 100 * whole.input_wait_share);
  line += limit_text(whole.input_wait_share, whole.limiting_stage);
  if (whole.skipped_updates > 0) line += fmt::format(", {} updates skipped", whole.skipped_updates);
  print_line(line);
}

}  // namespace millrace

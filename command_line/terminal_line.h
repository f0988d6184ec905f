#pragma once

#include <chrono>
#include <string>

namespace millrace {

/// One line on standard error that is redrawn while long work goes on, and cleared at the end. Where standard error is
/// no terminal nothing is written. One thread at a time.
///
///     TerminalLine line;
///     while (work()) if (line.due()) line.show(fmt::format("{} records", records));
class TerminalLine {
 public:
  TerminalLine();
  ~TerminalLine();
  TerminalLine(const TerminalLine&) = delete;
  TerminalLine& operator=(const TerminalLine&) = delete;

  /// Whether somebody watches and the last `show` was 0.1 s ago or more.
  bool due() const { return terminal_ && Clock::now() >= redraw_at_; }
  /// Draws it at once, cut at the terminal's width: a longer one would be broken, and only its last part redrawn.
  void show(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;

  const bool terminal_;
  bool drawn_ = false;
  Clock::time_point redraw_at_ = Clock::now();
};

}  // namespace millrace

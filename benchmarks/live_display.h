#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "benchmarks/bench_result.h"

namespace millrace {

/// What the lines of a display say: rates and stages between two moments of a run. Not for a terminal only, so that it
/// can be tested.
struct DisplayedRun {
  std::string heading;  ///< which run, and how far it is
  RunSample before;
  RunSample now;
  double wall_seconds = 0;  ///< of the pipeline so far, for the bottleneck
  int threads = 1;
  bool unicode = true;  ///< bars of blocks; else of `#`

  /// Lines of at most `width` columns: headline, rates, a line for each stage with bars of busy and waiting and the
  /// fill of its queue, and what limits the run.
  [[nodiscard]] std::vector<std::string> lines(size_t width) const;
};

/// Draws the state of a run over and over in the same place on standard error, at most 5 times a second, where that is
/// a terminal; elsewhere it draws nothing. Lines are cut at the terminal's width, what has no room below is left out,
/// and what was drawn is erased at the end. It changes no mode of the terminal, so that a killed process leaves nothing
/// after but the lines. One thread at a time.
class LiveDisplay {
 public:
  /// `wanted`: false: draws nothing.
  explicit LiveDisplay(bool wanted);
  ~LiveDisplay();
  LiveDisplay(const LiveDisplay&) = delete;
  LiveDisplay& operator=(const LiveDisplay&) = delete;

  /// Whether somebody watches and the last picture is 0.2 s old.
  bool due() const { return terminal_ && Clock::now() >= redraw_at_; }
  void draw(DisplayedRun run);

 private:
  using Clock = std::chrono::steady_clock;
  void erase(size_t columns, std::string& text);

  const bool terminal_;
  const bool unicode_;
  std::vector<size_t> drawn_;  // columns of the lines on the screen
  Clock::time_point redraw_at_ = Clock::now();
};

}  // namespace millrace

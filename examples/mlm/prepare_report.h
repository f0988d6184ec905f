#pragma once

#include <atomic>
#include <chrono>
#include <string>

#include "examples/mlm/prepare_options.h"
#include "examples/mlm/shard_preparation.h"
#include "examples/mlm/text_corpus.h"
#include "millrace/command_line/terminal_line.h"

namespace millrace {

/// Shows on a terminal how far a preparation is: one line that is redrawn, at most ten times a second. On anything else
/// it writes nothing.
class PreparationProgressLine {
 public:
  /// How much of the text is read, 0 to 1. Any thread.
  void set_fraction_read(double fraction) { fraction_read_.store(fraction, std::memory_order_relaxed); }
  /// One thread at a time.
  void show(const PreparationProgress& progress);

 private:
  using Clock = std::chrono::steady_clock;

  TerminalLine line_;
  const Clock::time_point begin_ = Clock::now();
  std::atomic<double> fraction_read_{0};
};

/// What a finished preparation is said to be: for people, or one JSON object on a line.
std::string report_text(const PrepareOptions& options, const ShardStatistics& statistics, const CorpusReport& corpus,
                        double seconds);
std::string report_json(const PrepareOptions& options, const ShardStatistics& statistics, const CorpusReport& corpus,
                        double seconds);

}  // namespace millrace

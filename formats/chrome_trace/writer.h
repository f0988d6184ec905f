#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace millrace {

/// Writes what happened when for chrome://tracing and https://ui.perfetto.dev: the Trace Event Format in its "JSON
/// Array Format" (Chrome). Times are given in nanoseconds from any start and written in microseconds with three digits.
/// Names may be any text.
///
///     ChromeTraceWriter writer;
///     writer.row_name(1, "thread 1");
///     writer.span(1, "forward", 0, 2'000'000);
///     file.write(writer.take());   // again and again, or once after `end`
///
/// The format lets the closing bracket be missing, so a file that grows by what `take` gives can be shown at any time.
/// Viewers want what lies around other spans of its row before them. One thread.
class ChromeTraceWriter {
 public:
  void process_name(std::string_view name);
  /// A row is a thread, or whatever the caller draws beside the threads.
  void row_name(uint64_t row, std::string_view name);
  void span(uint64_t row, std::string_view name, int64_t begin_ns, int64_t duration_ns);
  /// A number that changes over time: `value` of `what` from then on.
  void counter(uint64_t row, std::string_view name, int64_t at_ns, std::string_view what, int64_t value);
  /// A note at the begin of the whole trace: `value` of `what`.
  void note(std::string_view name, std::string_view what, uint64_t value);
  /// Closes the array; nothing may be written after it.
  void end();
  /// The text since the last call.
  [[nodiscard]] std::string take();

 private:
  void begin_event();

  std::string text_;
  bool first_ = true;
};

}  // namespace millrace

#pragma once

namespace millrace {

/// While it lives, SIGINT and SIGTERM ask for an end instead of ending the process: the first one is remembered, a
/// second one ends the process at once with 128 + its number (130 for Ctrl-C). One at a time in a process.
///
///     StopSignals signals;
///     trainer.train(source, [&] { return signals.requested(); });
///     if (signals.requested()) return signals.exit_code();
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// A signal has come. Any thread.
  bool requested() const;
  /// 128 + the number of the signal that came, 0 before.
  int exit_code() const;
};

}  // namespace millrace

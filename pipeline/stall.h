#pragma once

#include <string>

namespace millrace {

/// What the watchdog found: somebody waits in `Pipeline::next()`, or in `Dataset::start()` or
/// `PipelineState::serialize()` for the storage, and nothing has moved for longer than `StartOptions::watchdog`.
struct Stall {
  double seconds = 0;  ///< without progress, at least
  /// One line: what everybody waits for, as in `next() waits for 2:map (function="decode"), which has been running
  /// for 61.0 s, 17 elements into its block`.
  std::string cause = {};
  /// Lines: the caller's wait, the state of every segment with its ring, open files and what is in flight, `cause`.
  std::string report = {};
};

/// The limit of the programs, in seconds, unless `--watchdog` says another: no disk, and no store that is well, lets a
/// read wait for so long.
constexpr double kProgramWatchdogSeconds = 120;

/// The exit code of programs whose pipeline stalled: EX_TEMPFAIL of sysexits.h, as the same run may pass when a slow
/// store is well again.
constexpr int kStallExitCode = 75;

/// What programs give as `StartOptions::on_stall`: prints the report on standard error and ends the process at once
/// with `kStallExitCode`, without destructors: a function or a read that does not return cannot be joined.
[[noreturn]] void exit_on_stall(const Stall& stall);

}  // namespace millrace

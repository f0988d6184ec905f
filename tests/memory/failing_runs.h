#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tests/memory/failing_allocations.h"

namespace millrace::test {

/// An allocation that finds no memory, see `fail_allocation`; number 0: none does.
struct FailurePoint {
  AllocationKind kind = AllocationKind::kLarge;
  int64_t number = 0;
  bool and_later = false;
};

/// What a run came to.
struct FailingRun {
  int exit_code = -1;  ///< -1 when a signal ended it
  int signal = 0;      ///< 0 when none did
  bool hung = false;   ///< it was killed, for nothing moved in it
  std::string out;
  std::string err;
  int64_t large = 0;  ///< its allocations
  int64_t small = 0;
  std::string failed_at;  ///< a line for each function that asked for the memory that there was not; or empty
};

/// Runs a program once for each point, in a process of its own that was forked before there was any other thread, and
/// says of each how it ended. A run is taken to hang when it asked for no memory while many others, at last without a
/// failure, went from their beginning to their end: no clock says so.
std::vector<FailingRun> run_with_failures(const std::function<int()>& program, std::span<const FailurePoint> points);

/// What is wrong with how a run ended, which was to give what `right` gave with all memory, or to say in one line that
/// there was none, with an exit code other than 0; empty: nothing.
std::string fault_of(const FailingRun& run, const FailingRun& right, const FailurePoint& point);

}  // namespace millrace::test

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string_view>

#include "millrace/pipeline/watch/stall_timer.h"

namespace millrace {

class LoweredPlan;
class OutputThread;
class WatchedStorage;

/// Notices that nothing moves while somebody waits. It has no thread: whoever waits wakes up every quarter of the limit
/// and looks. What moves is counted by the statistics that are there anyway (rows and errors that operators delivered),
/// by maps inside their blocks, by the storage, and by the thread that writes; while that brings files to the disk,
/// nobody can see whether it moves, and it is taken to. Used by one thread at a time: the one that waits, or while that
/// works and does not come out, the one of its reserved slot (`ConsumerWaiter::ReservedSlot`).
class Watchdog {
 public:
  /// `seconds`: the limit, above 0. `on_stall`: null for the default, see StartOptions. `plan`, `storage` and `output`
  /// must outlive this.
  Watchdog(double seconds, std::function<void(const Stall&)> on_stall, const LoweredPlan& plan,
           const WatchedStorage& storage, const OutputThread& output, int threads);

  /// How long to wait at most until the next look.
  std::chrono::nanoseconds interval() const { return still_.interval(); }
  /// After `interval()` without being woken. `waiting_since_ns`: begin of the wait. When nothing has moved for the
  /// limit, tells `on_stall`, whose exceptions pass. The end of a wait is a move too: a block was delivered.
  void look(int64_t waiting_since_ns) { look("next()", waiting_since_ns); }
  /// The same before anything runs, while `start()` waits.
  void look_at_start(int64_t waiting_since_ns) { look("start()", waiting_since_ns); }

 private:
  void look(std::string_view call, int64_t waiting_since_ns);

  const LoweredPlan& plan_;
  const WatchedStorage& storage_;
  const OutputThread& output_;
  const int threads_;
  StallTimer still_;
};

}  // namespace millrace

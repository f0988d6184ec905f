#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "pipeline/stall.h"

namespace millrace {

class LoweredPlan;
class OutputThread;
class WatchedStorage;

/// Notices that nothing moves while somebody waits. It has no thread: whoever waits wakes up every quarter of the limit
/// and looks. What moves is counted by the statistics that are there anyway (rows and errors that operators delivered),
/// by maps inside their blocks, by the storage, and by the thread that writes; while that brings files to the disk,
/// nobody can see whether it moves, and it is taken to. Used by the waiting thread only.
class Watchdog {
 public:
  /// `seconds`: the limit, above 0. `on_stall`: null for the default, see StartOptions. `plan`, `storage` and `output`
  /// must outlive this.
  Watchdog(double seconds, std::function<void(const Stall&)> on_stall, const LoweredPlan& plan,
           const WatchedStorage& storage, const OutputThread& output, int threads);

  /// How long to wait at most until the next look.
  std::chrono::nanoseconds interval() const { return interval_; }
  /// After `interval()` without being woken. `waiting_since_ns`: begin of the wait. When nothing has moved for the
  /// limit, tells `on_stall`, whose exceptions pass. The end of a wait is a move too: a block was delivered.
  void look(int64_t waiting_since_ns) { look("next()", waiting_since_ns); }
  /// The same before anything runs, while `start()` waits.
  void look_at_start(int64_t waiting_since_ns) { look("start()", waiting_since_ns); }

 private:
  void look(std::string_view call, int64_t waiting_since_ns);
  uint64_t progress() const;
  void bark(std::string_view call, int64_t waiting_since_ns);

  const int64_t limit_ns_;
  const std::chrono::nanoseconds interval_;
  const std::function<void(const Stall&)> on_stall_;
  const LoweredPlan& plan_;
  const WatchedStorage& storage_;
  const OutputThread& output_;
  const int threads_;
  int64_t looked_ns_ = 0;  // 0: not yet
  int64_t still_ns_ = 0;
  uint64_t seen_ = 0;
};

}  // namespace millrace

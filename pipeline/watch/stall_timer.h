#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "millrace/pipeline/stall.h"

namespace millrace {

/// For how long nothing has moved, as counted by the thread that waits: it wakes up every `interval()` and looks.
class StallTimer {
 public:
  /// `seconds`: the limit, above 0, or it throws `kInvalidArgument`. `on_stall`: null for the default, see
  /// StartOptions.
  StallTimer(double seconds, std::function<void(const Stall&)> on_stall);

  /// How long to wait at most until the next look: a quarter of the limit.
  std::chrono::nanoseconds interval() const { return interval_; }
  /// `moved`: a count that has grown when something has moved. `may_move`: something may, where nobody can see it.
  /// True: nothing has for the limit.
  [[nodiscard]] bool look(uint64_t moved, bool may_move = false);
  double seconds() const;
  /// Tells of a stall, and counts anew: calls `on_stall`, whose exceptions pass; the default prints the report and
  /// throws `kStalled`.
  void tell(const Stall& stall);

 private:
  const int64_t limit_ns_;
  const std::chrono::nanoseconds interval_;
  const std::function<void(const Stall&)> on_stall_;
  int64_t looked_ns_ = 0;  // 0: not yet
  int64_t still_ns_ = 0;
  uint64_t seen_ = 0;
};

}  // namespace millrace

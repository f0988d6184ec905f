#include "millrace/pipeline/watch/stall_timer.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/pipeline/run/stage_statistics.h"

namespace millrace {
namespace {

constexpr double kMostSeconds = 1e6;

int64_t checked_limit_ns(double seconds) {
  if (!(seconds > 0 && seconds <= kMostSeconds)) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("start: watchdog is {}, must be above 0 and at most {} seconds, or 0 for none",
                                     seconds, kMostSeconds));
  }
  return std::max<int64_t>(4, std::llround(1e9 * seconds));
}

void print(const Stall& stall) {
  fmt::print(stderr, "millrace: {}", stall.report);
  std::fflush(stderr);
}

}  // namespace

StallTimer::StallTimer(double seconds, std::function<void(const Stall&)> on_stall)
    : limit_ns_(checked_limit_ns(seconds)), interval_(limit_ns_ / 4), on_stall_(std::move(on_stall)) {}

bool StallTimer::look(uint64_t moved, bool may_move) {
  const int64_t now = now_ns();
  if (looked_ns_ == 0 || moved != seen_ || may_move) {
    looked_ns_ = now;
    seen_ = moved;
    still_ns_ = 0;
    return false;
  }
  // A process that was stopped, or got no time on a busy machine, did not wait: an interval counts twice at most.
  still_ns_ += std::min<int64_t>(now - looked_ns_, 2 * interval_.count());
  looked_ns_ = now;
  return still_ns_ >= limit_ns_;
}

double StallTimer::seconds() const { return 1e-9 * static_cast<double>(still_ns_); }

void StallTimer::tell(const Stall& stall) {
  still_ns_ = 0;
  if (on_stall_) {
    on_stall_(stall);
    return;
  }
  print(stall);
  throw ErrorException(ErrorCode::kStalled,
                       fmt::format("nothing has moved for {:.1f} s: {}", stall.seconds, stall.cause));
}

void exit_on_stall(const Stall& stall) {
  std::fflush(stdout);
  print(stall);
  std::_Exit(kStallExitCode);
}

}  // namespace millrace

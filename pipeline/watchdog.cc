#include "pipeline/watchdog.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include "formats/error.h"
#include "pipeline/lowering.h"
#include "pipeline/output_thread.h"
#include "pipeline/stall_report.h"

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

Watchdog::Watchdog(double seconds, std::function<void(const Stall&)> on_stall, const LoweredPlan& plan,
                   const WatchedStorage& storage, const OutputThread& output, int threads)
    : limit_ns_(checked_limit_ns(seconds)),
      interval_(limit_ns_ / 4),
      on_stall_(std::move(on_stall)),
      plan_(plan),
      storage_(storage),
      output_(output),
      threads_(threads) {}

uint64_t Watchdog::progress() const { return plan_.progress() + storage_.answers() + output_.done(); }

void Watchdog::look(std::string_view call, int64_t waiting_since_ns) {
  const int64_t now = now_ns();
  const uint64_t moved = progress();
  if (looked_ns_ == 0 || moved != seen_ || output_.is_syncing()) {
    looked_ns_ = now;
    seen_ = moved;
    still_ns_ = 0;
    return;
  }
  // A process that was stopped, or got no time on a busy machine, did not wait: an interval counts twice at most.
  still_ns_ += std::min<int64_t>(now - looked_ns_, 2 * interval_.count());
  looked_ns_ = now;
  if (still_ns_ < limit_ns_) return;
  bark(call, waiting_since_ns);
}

void Watchdog::bark(std::string_view call, int64_t waiting_since_ns) {
  constexpr double kSeconds = 1e-9;
  const Stall stall = describe_stall({.call = call,
                                      .still_seconds = kSeconds * static_cast<double>(still_ns_),
                                      .waiting_seconds = kSeconds * static_cast<double>(now_ns() - waiting_since_ns),
                                      .threads = threads_,
                                      .segments = plan_.states(),
                                      .files = storage_.files()});
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

#include "millrace/pipeline/watch/watchdog.h"

#include <utility>

#include "millrace/pipeline/run/lowered_plan.h"
#include "millrace/pipeline/run/output_thread.h"
#include "millrace/pipeline/run/stage_statistics.h"
#include "millrace/pipeline/watch/stall_report.h"

namespace millrace {

Watchdog::Watchdog(double seconds, std::function<void(const Stall&)> on_stall, const LoweredPlan& plan,
                   const WatchedStorage& storage, const OutputThread& output, int threads)
    : plan_(plan), storage_(storage), output_(output), threads_(threads), still_(seconds, std::move(on_stall)) {}

void Watchdog::look(std::string_view call, int64_t waiting_since_ns) {
  const uint64_t moved = plan_.progress() + storage_.answers() + output_.done();
  if (!still_.look(moved, output_.is_syncing())) return;
  constexpr double kSeconds = 1e-9;
  still_.tell(describe_stall({.call = call,
                              .still_seconds = still_.seconds(),
                              .waiting_seconds = kSeconds * static_cast<double>(now_ns() - waiting_since_ns),
                              .threads = threads_,
                              .segments = plan_.states(),
                              .files = storage_.files()}));
}

}  // namespace millrace

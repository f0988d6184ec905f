#include "pipeline/statistics.h"

#include <algorithm>

#include <fmt/format.h>

namespace millrace {

std::string Statistics::bottleneck() const {
  if (stages.empty() || wall_seconds <= 0) return "none";
  if (consumer_waiting_seconds < 0.3 * wall_seconds) return "consumer";
  double total_busy = 0;
  for (const StageReport& stage : stages) total_busy += stage.busy_seconds;
  const double all_threads = wall_seconds * threads;
  const bool all_threads_busy = total_busy > 0.7 * all_threads;
  const StageReport* limiting = nullptr;
  double highest = 0;
  for (const StageReport& stage : stages) {
    // A serial operator can use one thread at most, lanes one each, a parallel one all of them.
    const double capacity =
        stage.parallel || all_threads_busy ? all_threads : wall_seconds * std::min(stage.copies, threads);
    const double share = stage.busy_seconds / capacity;
    if (share > highest) {
      highest = share;
      limiting = &stage;
    }
  }
  if (limiting == nullptr || (!all_threads_busy && highest < 0.3)) return "storage";
  return limiting->name;
}

std::string Statistics::to_string() const {
  std::string text = fmt::format("{:<22} {:>7} {:>12} {:>10} {:>8} {:>9} {:>9} {:>6}\n", "stage", "segment", "rows",
                                 "MB", "busy s", "in wait s", "out wait s", "queue");
  for (const StageReport& stage : stages) {
    const std::string name = stage.copies > 1 ? fmt::format("{} x{}", stage.name, stage.copies) : stage.name;
    text += fmt::format("{:<22} {:>7} {:>12} {:>10.1f} {:>8.3f} {:>9.3f} {:>9.3f} {:>6}\n", name, stage.segment,
                        stage.rows, static_cast<double>(stage.bytes) / 1e6, stage.busy_seconds,
                        stage.waiting_for_input_seconds, stage.waiting_for_output_seconds, stage.queue_high_water);
  }
  text += fmt::format(
      "wall {:.3f} s, consumer waited {:.3f} s, {} of {} threads ran, {:.1f} MB in buffers, limited by {}\n",
      wall_seconds, consumer_waiting_seconds, distinct_workers, threads, static_cast<double>(buffer_bytes) / 1e6,
      bottleneck());
  return text;
}

}  // namespace millrace

#include "benchmarks/bottleneck_text.h"

#include <algorithm>

#include <fmt/format.h>

namespace millrace {
namespace {

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

}  // namespace

std::string bottleneck_text(const Statistics& statistics) {
  std::string name = statistics.bottleneck();
  const double wall = statistics.wall_seconds;
  if (name == "none") return "nothing has run yet";
  if (name == "consumer") {
    return fmt::format("the consumer: it waits in next() for only {:.0f}% of the time",
                       percent(statistics.consumer_waiting_seconds, wall));
  }
  if (name == "storage") return "the storage: every chain of stages waits for its input";
  const auto found = std::find_if(statistics.stages.begin(), statistics.stages.end(),
                                  [&name](const StageReport& stage) { return stage.name == name; });
  if (found == statistics.stages.end()) return name;
  if (statistics.limited_by_workers()) {
    return fmt::format("the processor: {} worker{} busy for {:.0f}% of the time, most of it ({:.0f}%) in {}",
                       statistics.threads, statistics.threads == 1 ? " is" : "s are",
                       percent(statistics.busy_seconds(), wall * statistics.threads),
                       percent(found->busy_seconds, statistics.busy_seconds()), name);
  }
  if (found->parallel) {
    return fmt::format("{}: workers are in it for {:.0f}% of {} × the time, and its queue is full for {:.0f}%", name,
                       percent(found->busy_seconds, wall * statistics.threads), statistics.threads,
                       percent(found->waiting_for_output_seconds, wall));
  }
  return fmt::format("{}: this serial stage{} is busy for {:.0f}% of the time and waits for its input for {:.0f}%",
                     name, found->copies > 1 ? fmt::format(" ({} side by side)", found->copies) : "",
                     percent(found->busy_seconds, wall * found->copies),
                     percent(found->waiting_for_input_seconds, wall * found->copies));
}

}  // namespace millrace

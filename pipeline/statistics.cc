#include "millrace/pipeline/statistics.h"

#include <algorithm>
#include <map>
#include <numeric>

#include <fmt/format.h>

namespace millrace {

double Statistics::busy_seconds() const {
  return std::accumulate(stages.begin(), stages.end(), 0.0,
                         [](double sum, const StageReport& stage) { return sum + stage.busy_seconds; });
}

bool Statistics::limited_by_workers() const {
  if (threads == 0 || busy_seconds() < 0.75 * wall_seconds * threads) return false;
  if (threads == 1) return true;
  std::map<int, double> chains;
  for (const StageReport& stage : stages) {
    if (!stage.parallel && stage.copies == 1) chains[stage.segment] += stage.busy_seconds;
  }
  return std::ranges::none_of(chains, [&](const auto& chain) { return chain.second > 0.85 * wall_seconds; });
}

std::string Statistics::bottleneck() const {
  if (stages.empty() || wall_seconds <= 0) return "none";
  if (consumer_waiting_seconds < 0.3 * wall_seconds) return "consumer";
  if (limited_by_workers()) return std::ranges::max_element(stages, {}, &StageReport::busy_seconds)->name;
  // From the consumer towards the source: the first segment that keeps the next one waiting for its own reasons.
  for (int segment = stages.back().segment; segment >= 0; --segment) {
    const StageReport* chain = nullptr;  // the busiest operator of its serial chain, or of its lanes
    const StageReport* body = nullptr;   // the busiest map of its body
    for (const StageReport& stage : stages) {
      if (stage.segment != segment) continue;
      const StageReport*& busiest = stage.parallel ? body : chain;
      if (busiest == nullptr || stage.busy_seconds > busiest->busy_seconds) busiest = &stage;
    }
    const StageReport* any = chain != nullptr ? chain : body;
    if (any == nullptr) continue;
    const double wall_of_copies = wall_seconds * any->copies;
    if (body != nullptr && any->waiting_for_output_seconds > 0.3 * wall_of_copies) return body->name;
    if (chain != nullptr && any->waiting_for_input_seconds < 0.5 * wall_of_copies) return chain->name;
  }
  return "storage";
}

std::string Statistics::to_string() const {
  std::string text =
      fmt::format("{:<22} {:>7} {:>12} {:>10} {:>8} {:>9} {:>9} {:>6} {:>7} {:>12}\n", "stage", "segment", "rows", "MB",
                  "busy s", "in wait s", "out wait s", "queue", "errors", "lost bytes");
  for (const StageReport& stage : stages) {
    const std::string name = stage.copies > 1 ? fmt::format("{} x{}", stage.name, stage.copies) : stage.name;
    text += fmt::format("{:<22} {:>7} {:>12} {:>10.1f} {:>8.3f} {:>9.3f} {:>9.3f} {:>6} {:>7} {:>12}\n", name,
                        stage.segment, stage.rows, static_cast<double>(stage.bytes) / 1e6, stage.busy_seconds,
                        stage.waiting_for_input_seconds, stage.waiting_for_output_seconds, stage.queue_high_water,
                        stage.errors, stage.lost_bytes);
  }
  text += fmt::format(
      "wall {:.3f} s, consumer waited {:.3f} s, {} of {} threads ran, {:.1f} MB in buffers (peak {:.1f} of {:.0f}), "
      "limited by {}\n",
      wall_seconds, consumer_waiting_seconds, distinct_workers, threads, static_cast<double>(buffer_bytes) / 1e6,
      static_cast<double>(peak_buffer_bytes) / 1e6, static_cast<double>(memory_budget) / 1e6, bottleneck());
  return text;
}

}  // namespace millrace

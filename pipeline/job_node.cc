#include "pipeline/job_node.h"

#include <utility>

namespace millrace {

JobNode::JobNode(Executor& executor, size_t most_jobs, StageStatistics* statistics)
    : executor_(executor),
      most_jobs_(most_jobs),
      statistics_(statistics),
      places_(std::make_unique<Place[]>(most_jobs)),
      node_(executor.graph(), tbb::flow::unlimited, HandedOver([this](size_t index) {
              handoff_acquire(&places_[index]);
              run(places_[index]);
              return tbb::flow::continue_msg();
            })) {}

bool JobNode::take(const Ref<Job>& job) noexcept {
  for (size_t i = 0; i < most_jobs_; ++i) {
    Place& place = places_[i];
    if (place.taken.load(std::memory_order_relaxed) || place.taken.exchange(true)) continue;
    place.job = job;
    executor_.submit(node_, i, &place);
    return true;
  }
  return false;
}

void JobNode::run(Place& place) noexcept {
  const Executor::Body mark(executor_);
  if (executor_.stopping()) return;
  const int64_t begin = statistics_ != nullptr ? now_ns() : 0;
  const Job::Done done = std::exchange(place.job, {})->run();
  place.taken.store(false);
  if (statistics_ == nullptr) return;
  const int64_t end = now_ns();
  statistics_->inclusive_ns.fetch_add(end - begin, std::memory_order_relaxed);
  statistics_->rows.fetch_add(done.rows, std::memory_order_relaxed);
  statistics_->bytes.fetch_add(done.bytes, std::memory_order_relaxed);
  statistics_->trace.span(begin, end);
}

}  // namespace millrace

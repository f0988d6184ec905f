#pragma once

#include <atomic>
#include <memory>

#include "ops/helpers.h"
#include "pipeline/executor.h"
#include "pipeline/stage_statistics.h"

namespace millrace {

/// The workers as helpers of one operator's stages: its jobs are run as the bodies of segments are, and by whoever has
/// nothing else to do. Asked by bodies of the executor, any number at a time.
class WorkerHelpers final : public Helpers {
 public:
  /// `statistics`: where the jobs are counted; null: nowhere. `executor` must outlive it and be stopped before it goes.
  WorkerHelpers(Executor& executor, size_t most_jobs, StageStatistics* statistics);

  size_t most_jobs() const noexcept override { return most_jobs_; }
  [[nodiscard]] bool help(const Ref<Job>& job) noexcept override;

  /// Lets go of jobs that were never run; only when no body runs.
  void drop_jobs();

 private:
  struct Place {
    std::atomic<bool> taken{false};
    Ref<Job> job;
  };

  void run(Place& place) noexcept;

  Executor& executor_;
  const size_t most_jobs_;
  StageStatistics* const statistics_;
  std::unique_ptr<Place[]> places_;
  Executor::Node node_;
};

}  // namespace millrace

#pragma once

#include <atomic>
#include <memory>

#include "ops/job.h"
#include "pipeline/executor.h"
#include "pipeline/stage_statistics.h"

namespace millrace {

/// A node that runs the jobs of one operator's stages, as others run the bodies of segments. Bodies of the executor
/// give it jobs, any number of them at a time.
class JobNode final : public JobRunner {
 public:
  /// `statistics`: where the jobs are counted; null: nowhere. `executor` must outlive it and be stopped before it goes,
  /// with the jobs that have not run.
  JobNode(Executor& executor, size_t most_jobs, StageStatistics* statistics);

  size_t most_jobs() const noexcept override { return most_jobs_; }
  [[nodiscard]] bool take(const Ref<Job>& job) noexcept override;

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

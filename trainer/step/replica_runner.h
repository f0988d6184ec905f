#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "millrace/trainer/step/bucket_countdown.h"
#include "millrace/trainer/step/device_worker.h"
#include "millrace/trainer/step/step_graph_options.h"
#include "millrace/trainer/step/step_numbers.h"
#include "millrace/trainer/step/step_timeline.h"
#include "millrace/trainer/step/step_watchdog.h"
#include "millrace/trainer/step/update_decision.h"
#include "millrace/trainer/trained_state.h"

namespace millrace {

/// Runs the replicas of a step, each on a device worker that it is lent for that long. Any number of threads at once,
/// each with another replica. What a worker or the model throws is thrown here.
class ReplicaRunner {
 public:
  /// All must outlive it. `buckets`: of the parameters that are trained.
  ReplicaRunner(const Model& model, const TrainedState& state, std::span<const Bucket> buckets,
                const StepGraphOptions& options, const UpdateDecision& decision, StepWatchdog& watchdog);

  /// One replica's part of a step.
  struct Part {
    int replica = 0;
    StepNumbers numbers;
    std::span<float> gradients;                   ///< to write; `[layout.size()]`
    std::chrono::steady_clock::time_point began;  ///< what times count from
    /// Called with each bucket when nothing will write to it any more.
    BucketCountdown::BucketFinal bucket_final;
  };
  /// Forward and backward over at least one row. Sets `time.backward` when the forward pass has ended. Throws
  /// `kInvalidArgument` when a gradient or a loss is missing.
  StepResult train(const BatchView& rows, const Part& part, ReplicaTime& time);
  StepResult evaluate(const BatchView& rows);
  /// Throws `kWrongShape` when the model predicts another number of rows.
  Predictions predict(const BatchView& rows);

 private:
  template <typename Work>
  auto with_worker(const Work& work) {
    std::unique_ptr<DeviceWorker> worker = workers_.take();
    auto result = work(*worker);
    workers_.put_back(std::move(worker));
    return result;
  }

  const ParameterLayout& layout_;
  const TrainedState& state_;
  const std::span<const Bucket> buckets_;
  const StepGraphOptions& options_;
  const UpdateDecision& decision_;
  StepWatchdog& watchdog_;
  const BucketsOfParameters buckets_of_parameters_;
  const std::optional<std::vector<int>> trainable_;  // ids
  WorkerPool workers_;
};

}  // namespace millrace

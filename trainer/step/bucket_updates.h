#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "millrace/formats/error.h"
#include "millrace/trainer/optimizers/optimizer.h"
#include "millrace/trainer/parameters.h"
#include "millrace/trainer/step/step_watchdog.h"
#include "millrace/trainer/trained_state.h"

namespace millrace {

/// The updates of one step, bucket by bucket, each from any thread and all at once. For a layer-wise rule first the
/// directions of all buckets, then the updates. The first that is thrown is kept for whoever ends the step.
class BucketUpdates {
 public:
  /// All must outlive it. `buckets`: of the parameters that are trained.
  BucketUpdates(const Optimizer& optimizer, TrainedState& state, const ParameterLayout& layout,
                std::span<const Bucket> buckets, StepWatchdog& watchdog);

  bool layerwise() const { return optimizer_.layerwise(); }

  /// A step begins. `updates`: by loss. `gradients`: the sums over all replicas and batches, `[layout.size()]`.
  void begin(std::vector<UpdateStep> updates, float* gradients);
  /// Returns true to the one caller that found the last direction, unless one could not be found: the updates follow.
  bool find_direction(int bucket) noexcept;
  void update(int bucket) noexcept;

  /// In a `catch`: keeps the exception that is being handled, if it is the first of the step.
  void keep_error() noexcept;
  /// What was kept; nothing is any more.
  std::optional<Error> take_error();

 private:
  void add_directions();
  const UpdateStep& update_of(size_t bucket) const { return updates_[static_cast<size_t>(buckets_[bucket].loss)]; }
  UpdateBuffers buffers() { return {.weights = state_.weights.data(), .gradients = gradients_, .slots = slot_data_}; }

  const Optimizer& optimizer_;
  TrainedState& state_;
  const std::span<const Bucket> buckets_;
  StepWatchdog& watchdog_;
  std::vector<std::vector<UpdateRange>> ranges_;  // by bucket
  std::vector<float*> slot_data_;
  std::vector<UpdateStep> updates_;  // by loss
  float* gradients_ = nullptr;
  std::vector<std::vector<LayerSquares>> squares_;  // by bucket and range
  std::vector<LayerSquares> whole_layers_;          // by parameter
  std::atomic<int> undirected_{0};                  // buckets without a direction
  std::mutex error_mutex_;
  std::optional<Error> error_;
};

}  // namespace millrace

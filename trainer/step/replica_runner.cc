#include "millrace/trainer/step/replica_runner.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {

ReplicaRunner::ReplicaRunner(const Model& model, const TrainedState& state, std::span<const Bucket> buckets,
                             const StepGraphOptions& options, const UpdateDecision& decision, StepWatchdog& watchdog)
    : layout_(model.layout()),
      state_(state),
      buckets_(buckets),
      options_(options),
      decision_(decision),
      watchdog_(watchdog),
      buckets_of_parameters_(layout_, buckets),
      trainable_(state.trainable_ids()),
      workers_(options.make_worker ? options.make_worker : [&model] { return std::make_unique<CpuWorker>(model); }) {}

StepResult ReplicaRunner::train(const BatchView& rows, const Part& part, ReplicaTime& time) {
  const bool whole = decision_.needs_whole_replicas();
  const auto forward_ended = [&] {
    if (time.backward.count() == 0) time.backward = std::chrono::steady_clock::now() - part.began;
  };
  const auto backward_begins = [&] {
    forward_ended();
    watchdog_.backward_begins(part.replica);
  };
  const auto bucket_done = [&](int bucket) {
    forward_ended();
    watchdog_.gradient_final(part.replica, buckets_[static_cast<size_t>(bucket)].parameters.back());
    // When a factor is to be known before replicas are added, the buckets wait until it is.
    if (!whole) part.bucket_final(bucket);
  };
  BucketCountdown countdown(layout_, buckets_of_parameters_, bucket_done, backward_begins);
  return with_worker([&](DeviceWorker& worker) {
    StepResult result = worker.train_step(rows, state_.weights.data(),
                                          {.seed = options_.seed,
                                           .batch = part.numbers.batch,
                                           .replica = part.replica,
                                           .gradients = part.gradients,
                                           .activations = options_.activations,
                                           .loss_scale = part.numbers.loss_scale,
                                           .trainable = trainable_,
                                           .listener = &countdown});
    countdown.check_complete();
    decision_.check_losses(result);
    if (whole) {
      decision_.scale_replica(part.gradients, result, part.numbers.loss_scale);
      for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) part.bucket_final(static_cast<int>(bucket));
    }
    return result;
  });
}

StepResult ReplicaRunner::evaluate(const BatchView& rows) {
  return with_worker([&](DeviceWorker& worker) { return worker.evaluate(rows, state_.weights.data()); });
}

Predictions ReplicaRunner::predict(const BatchView& rows) {
  return with_worker([&](DeviceWorker& worker) {
    Predictions predictions = worker.predict(rows, state_.weights.data());
    if (predictions.rows != rows.rows()) {
      throw ErrorException(ErrorCode::kWrongShape,
                           fmt::format("the model predicted {} rows of {}", predictions.rows, rows.rows()));
    }
    return predictions;
  });
}

}  // namespace millrace

#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "trainer/model.h"

namespace millrace {

/// A device on which a replica's step runs. Weights, gradients and batches are in host memory on this side of the
/// interface: a worker with a memory of its own copies weights and rows in, runs its stream of work, copies each
/// gradient out and announces it when it has arrived. Used by one replica at a time, from any thread.
class DeviceWorker {
 public:
  virtual ~DeviceWorker() = default;
  /// As `Model::train_step`; the worker brings the workspace.
  virtual StepResult train_step(const BatchView& rows, const float* weights, ReplicaContext context) = 0;
  /// As `Model::evaluate`.
  virtual StepResult evaluate(const BatchView& rows, const float* weights) = 0;
  /// As `Model::predict`.
  virtual Predictions predict(const BatchView& rows, const float* weights) = 0;
};

/// The host: runs the model on the calling thread.
class CpuWorker final : public DeviceWorker {
 public:
  /// `model` must outlive the worker.
  explicit CpuWorker(const Model& model) : model_(model), workspace_(model.make_workspace()) {}
  StepResult train_step(const BatchView& rows, const float* weights, ReplicaContext context) override;
  StepResult evaluate(const BatchView& rows, const float* weights) override;
  Predictions predict(const BatchView& rows, const float* weights) override;

 private:
  const Model& model_;
  std::unique_ptr<Workspace> workspace_;
};

/// Lends workers to replicas for the length of one step, so that there are as many as run at the same time and not one
/// per replica: their activations are most of a training's memory. Which worker a replica gets decides nothing. Thread
/// safe.
class WorkerPool {
 public:
  using Make = std::function<std::unique_ptr<DeviceWorker>()>;
  explicit WorkerPool(Make make) : make_(std::move(make)) {}

  /// A free worker, or a new one.
  [[nodiscard]] std::unique_ptr<DeviceWorker> take();
  void put_back(std::unique_ptr<DeviceWorker> worker);

 private:
  Make make_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<DeviceWorker>> free_;
};

}  // namespace millrace

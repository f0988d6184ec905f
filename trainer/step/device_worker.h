#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "millrace/trainer/model.h"

namespace millrace {

/// A device on which a replica's step runs. Weights, gradients and batches are in host memory on this side of the
/// interface: a worker with a memory of its own copies weights and rows in, runs its stream of work, copies each
/// gradient out and announces it when it has arrived (docs/training.md has one; docs/decisions/
/// a_device_with_memory_of_its_own.md says what more such a device would need).
///
/// Used by one replica at a time, from any thread, and by any replica of any step: it knows nothing of the one before,
/// and what it reads from `weights` is another thing in the next step. A call holds the thread that made it until it is
/// done. What it throws ends the step, with replica and step in front; the worker is then destroyed, not used again.
class DeviceWorker {
 public:
  virtual ~DeviceWorker() = default;
  /// As `Model::train_step`, with gradients and their order of becoming final that decide the weights bit for bit.
  /// `weights`: `[layout().size()]`, valid until it returns. `context.workspace` is null: the worker brings its own.
  /// `context.listener` is called on the calling thread, for each gradient when it lies in `context.gradients`.
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

/// Makes a worker. Called when a replica finds none free, from the threads of a step, several at a time; what it throws
/// is the error of that replica. Null is an error (`kInvalidArgument`).
using MakeWorker = std::function<std::unique_ptr<DeviceWorker>()>;

/// Lends workers to replicas for the length of one step, so that there are as many as run at the same time and not one
/// per replica: their activations are most of a training's memory. Which worker a replica gets decides nothing. Thread
/// safe.
class WorkerPool {
 public:
  explicit WorkerPool(MakeWorker make) : make_(std::move(make)) {}

  /// A free worker, or a new one. Throws what makes it throws, and `kInvalidArgument` when that is none.
  [[nodiscard]] std::unique_ptr<DeviceWorker> take();
  void put_back(std::unique_ptr<DeviceWorker> worker);

 private:
  MakeWorker make_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<DeviceWorker>> free_;
};

}  // namespace millrace

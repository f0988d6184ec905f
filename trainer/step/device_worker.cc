#include "millrace/trainer/step/device_worker.h"

#include "millrace/formats/error.h"

namespace millrace {

StepResult CpuWorker::train_step(const BatchView& rows, const float* weights, ReplicaContext context) {
  context.workspace = workspace_.get();
  return model_.train_step(rows, weights, context);
}

StepResult CpuWorker::evaluate(const BatchView& rows, const float* weights) {
  return model_.evaluate(rows, weights, *workspace_);
}

Predictions CpuWorker::predict(const BatchView& rows, const float* weights) {
  return model_.predict(rows, weights, *workspace_);
}

std::unique_ptr<DeviceWorker> WorkerPool::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      std::unique_ptr<DeviceWorker> worker = std::move(free_.back());
      free_.pop_back();
      return worker;
    }
  }
  std::unique_ptr<DeviceWorker> worker = make_();
  if (worker == nullptr) throw ErrorException(ErrorCode::kInvalidArgument, "make_worker gave no worker");
  return worker;
}

void WorkerPool::put_back(std::unique_ptr<DeviceWorker> worker) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(worker));
}

}  // namespace millrace

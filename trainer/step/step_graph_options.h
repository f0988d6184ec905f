#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "millrace/pipeline/stall.h"
#include "millrace/trainer/model.h"
#include "millrace/trainer/optimizers/optimizer.h"
#include "millrace/trainer/step/device_worker.h"
#include "millrace/trainer/step/gradient_normalization.h"

namespace millrace {

struct Clipping {
  double norm = 1;                ///< the largest norm over all parameters that is left as it is. Default: 1
  ClipForm form = ClipForm::kTf;  ///< Default: kTf
  /// Clip each replica's mean gradient before replicas are added, instead of the sum's after. Each loss of a model is
  /// clipped on its own, by the norm over the parameters that follow it, and of a step on several batches each batch.
  /// Default: false
  bool per_replica = false;
};

/// Of `StepGraphOptions`: what is kept for each is a fixed, small part of a step.
inline constexpr int kMostReplicas = 1024;
/// Of `StepGraphOptions`, as of pipelines.
inline constexpr int kMostStepThreads = 1024;

struct StepGraphOptions {
  int replicas = 8;   ///< views of a global batch, 1 to `kMostReplicas`. Default: 8
  int threads = 0;    ///< that work on a step, the caller's among them, up to `kMostStepThreads`. Default: 0, the cores
  uint64_t seed = 0;  ///< of the models' random choices. Default: 0
  std::optional<Clipping> clipping = std::nullopt;  ///< of the mean gradient. Default: none
  /// How the models keep what their backward passes need. Default: kFull
  ActivationStorage activations = ActivationStorage::kFull;
  /// What gradients are divided by. With means of replicas, and clipping of replicas, a replica's buckets are reduced
  /// when its backward pass has ended, not during it. Default: the weight of all
  GradientNormalization normalization = {};
  /// Seconds after which a step in which nothing moves is a stall; 0: never. Default: 0
  double watchdog = 0;
  /// Told of a stall, on a thread of its own. Default: the report is printed on standard error
  std::function<void(const Stall&)> on_stall = nullptr;
  /// Makes the devices that replicas run on, as many as run at the same time. Default: null, `CpuWorker`s of the model
  MakeWorker make_worker = nullptr;

  /// Throws `kInvalidArgument` for replicas and threads out of range.
  void check() const;
};

}  // namespace millrace

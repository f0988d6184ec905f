#pragma once

#include <cstdint>
#include <string>

#include "millrace/pipeline/dataset.h"
#include "millrace/trainer/model.h"
#include "millrace/trainer/optimizers/optimizer.h"
#include "millrace/trainer/schedules/schedule.h"
#include "millrace/trainer/stop_signals.h"
#include "millrace/trainer/trained_state.h"

namespace millrace {

struct LoopOptions {
  std::string out = "out";         ///< checkpoints are in OUT/checkpoints. Default: out
  int64_t steps = 257;             ///< in all, with those before a checkpoint. Default: 257
  int64_t report_every = 50;       ///< steps. Default: 50
  int64_t checkpoint_every = 100;  ///< steps. Default: 100
  int replicas = 8;                ///< that a batch is split into. Default: 8
  int threads = 0;                 ///< Default: 0, one for each core
  uint64_t seed = 42;              ///< of start weights. Default: 42
  std::string batches =
      {};  ///< what they are, seed and replicas too: a checkpoint of others is refused. Default: empty
};

/// A training loop without `Trainer` (docs/own_loop.md): makes steps until there are `steps`, from the newest
/// checkpoint on where there is one, and leaves one. `batches` never end. `state` becomes weights and slots. False: a
/// signal came before. Weights are bit for bit those of a loop that nobody stopped, for any number of threads. Throws
/// what pipeline, model and checkpoint do, and `std::runtime_error` where a gradient is not finite.
bool train(const Model& model, const Optimizer& optimizer, const Schedule& schedule, const Dataset& batches,
           const LoopOptions& options, const StopSignals& signals, TrainedState& state);

}  // namespace millrace

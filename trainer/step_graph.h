#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/device_worker.h"
#include "trainer/optimizers/optimizer.h"

namespace millrace {

/// What a training changes: weights and the optimizer's slots, all in the model's layout.
struct TrainedState {
  /// Zeros.
  TrainedState(const ParameterLayout& layout, const Optimizer& optimizer);

  FlatBuffer weights;
  std::vector<FlatBuffer> slots;  ///< one per slot name of the optimizer
};

struct Clipping {
  double norm = 1;                ///< the largest norm over all parameters that is left as it is. Default: 1
  ClipForm form = ClipForm::kTf;  ///< Default: kTf
};

struct StepGraphOptions {
  int replicas = 8;                  ///< views of a global batch. Default: 8
  int threads = 0;                   ///< threads that work on a step, the caller's among them. Default: 0, the cores
  uint64_t seed = 0;                 ///< of the models' random choices. Default: 0
  std::optional<Clipping> clipping;  ///< of the mean gradient, after the reduction. Default: none
};

/// A stretch of a step's time, since its beginning.
struct TimeSpan {
  std::chrono::nanoseconds begin{0};
  std::chrono::nanoseconds end{0};
};

/// Which step it is, and on which batch. Messages name both, steps counted from 1.
struct StepNumbers {
  int64_t step = 0;  ///< steps before this one
  /// Batches of the stream before this one, for `update` before the last one: keys the random choices.
  int64_t batch = 0;
  int64_t update = 1;  ///< 1 for the first update that is done
};

/// When each part of a step ran; of a step on several batches, the last one. One that has only the update left has no
/// replicas.
struct StepTimeline {
  std::vector<TimeSpan> replicas;    ///< forward and backward, the reductions that it did among them; empty ones are 0
  std::vector<TimeSpan> reductions;  ///< by bucket: the last addition of its tree and its sum of squares
  TimeSpan decision;                 ///< norm, finiteness, clipping
  std::vector<TimeSpan> updates;     ///< by bucket; empty when the update was skipped
  std::chrono::nanoseconds total{0};
  std::chrono::nanoseconds accumulating{0};  ///< on the batches before the last one, which `total` leaves out

  /// Buckets that were complete before the last replica's backward pass ended.
  int reduced_during_backward() const;
};

struct StepReport {
  StepResult result;         ///< sums over all replicas, added in their order, batch by batch
  double loss = 0;           ///< sum / weight; 0 when the weight is 0
  double gradient_norm = 0;  ///< of the mean gradient over all parameters, before clipping
  double clip_scale = 1;     ///< what clipping multiplied the gradient with
  bool updated = false;      ///< false: the update was skipped, weights and slots are as before
  std::string skip_reason;   ///< names step and batch, and what was not finite; empty when updated
  StepTimeline timeline;
};

/// One training step of a model on all replicas, as a oneTBB flow graph that is built once:
///
///     replica nodes ──► buckets reduced in a fixed tree (AllReduce) ──► decision ──► one update per bucket
///
/// A replica's forward and backward run isolated on one thread; a bucket is summed up as soon as it is final in both
/// children of a tree node, while backward goes on. The decision knows the total weight, the norm of the whole gradient
/// and whether all is finite; it divides once, clips, or skips the update. It comes after the last replica has stopped
/// reading weights; the updates of the buckets then run in parallel.
///
/// An update may be made of the gradients of several batches (micro-batches), as if they were one:
///
///     graph.accumulate(first, {.step = 0, .batch = 0});
///     StepReport report = graph.train(second, {.step = 0, .batch = 1, .update = 1}, 1e-3);
///
/// The sum of each batch over its replicas is added to that of the batches before it, bucket by bucket, in the order of
/// the calls; the decision then divides by the weight of all of them. It costs one more gradient buffer.
///
/// Weights are bitwise the same for any number of threads. The calling thread works in the graph's arena, so it needs
/// no other: one thread, a host's limit of one, and no worker at all are fine. One call at a time.
class StepGraph {
 public:
  /// `model`, `optimizer` and `state` must outlive it. Workers are made by `make_worker`, `CpuWorker` by default.
  /// Throws `kInvalidArgument` for options out of range.
  StepGraph(const Model& model, const Optimizer& optimizer, TrainedState& state, StepGraphOptions options,
            WorkerPool::Make make_worker = nullptr);
  ~StepGraph();

  /// A step on a global batch of at least one row, and on those accumulated before it. What a replica throws is thrown
  /// here, when all have stopped, with replica and step in front; weights and slots are then as before, and what was
  /// accumulated is given up.
  StepReport train(const BatchView& batch, const StepNumbers& numbers, double learning_rate);

  /// Forward and backward only: the next `train` or `update` counts the gradient of this batch in. Throws as `train`
  /// does.
  void accumulate(const BatchView& batch, const StepNumbers& numbers);
  /// The step on what was accumulated, without a further batch. Throws `kInvalidArgument` when that is nothing.
  StepReport update(const StepNumbers& numbers, double learning_rate);
  /// Gives up what was accumulated. Evaluations in between leave it as it is.
  void discard();

  /// Forward over all rows of a batch on all replicas; sums added in their order. Throws as `train` does.
  StepResult evaluate(const BatchView& batch);

  /// Distinct threads that have run replicas so far.
  int threads_seen() const;
  /// The most gradient buffers that were live at once so far.
  int peak_gradient_buffers() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "millrace/trainer/model.h"
#include "millrace/trainer/optimizers/optimizer.h"
#include "millrace/trainer/step/step_graph_options.h"
#include "millrace/trainer/step/step_numbers.h"
#include "millrace/trainer/step/step_timeline.h"
#include "millrace/trainer/trained_state.h"

namespace millrace {

struct StepReport {
  StepResult result = {};    ///< sums over all replicas, added in their order, batch by batch
  double loss = 0;           ///< the first loss: sum / weight; 0 when the weight is 0
  double gradient_norm = 0;  ///< of the normalised gradient over all trained parameters, before clipping of the sum
  double clip_scale = 1;     ///< what clipping of the sum multiplied the gradient of the first loss with
  bool updated = false;      ///< false: the update was skipped, weights and slots are as before
  std::vector<GroupRate> learning_rates = {};  ///< of groups of parameters with rates of their own
  std::string skip_reason = {};                ///< names step and batch, and what was not finite; empty when updated
  StepTimeline timeline = {};
  StepPhases phases = {};
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
  /// `model`, `optimizer` and `state` must outlive it. Throws `kInvalidArgument` for options out of range.
  StepGraph(const Model& model, const Optimizer& optimizer, TrainedState& state, StepGraphOptions options);
  ~StepGraph();

  /// A step on a global batch of at least one row, and on those accumulated before it. What a replica throws is thrown
  /// here, when all have stopped, with replica and step in front; weights and slots are then as before, and what was
  /// accumulated is given up. What the optimizer throws is thrown here too, with the step; some weights may have been
  /// updated then.
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
  /// What the model predicts of all rows of a batch, on all replicas, in the order of the rows. Throws as `train` does.
  Predictions predict(const BatchView& batch);

  /// Floats of gradients that are reduced, and parameters that are updated: without the frozen ones.
  std::span<const Bucket> buckets() const;

  /// Distinct threads that have run replicas so far.
  int threads_seen() const;
  /// The most gradient buffers that were live at once so far.
  int peak_gradient_buffers() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace

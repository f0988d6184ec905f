#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/stall.h"
#include "trainer/device_worker.h"
#include "trainer/gradient_normalization.h"
#include "trainer/optimizers/optimizer.h"

namespace millrace {

/// What a training changes: weights and the optimizer's slots, all in the model's layout.
struct TrainedState {
  /// Zeros. `frozen`: parameters whose name contains a match of this regular expression (ECMAScript; empty: none) are
  /// not trained: they have no gradient, are in no bucket, and neither decay nor momentum touches them. Throws
  /// `kInvalidArgument` for a pattern that is none, matches no parameter, or leaves nothing to train.
  TrainedState(const ParameterLayout& layout, const Optimizer& optimizer, const std::string& frozen = "");

  /// Elements of the parameters that are trained.
  int64_t num_trained(const ParameterLayout& layout) const;

  /// By parameter id: 0 for those that are frozen.
  std::vector<uint8_t> trainable;
  FlatBuffer weights;
  std::vector<FlatBuffer> slots;  ///< one per slot name of the optimizer
};

struct Clipping {
  double norm = 1;                ///< the largest norm over all parameters that is left as it is. Default: 1
  ClipForm form = ClipForm::kTf;  ///< Default: kTf
  /// Clip each replica's mean gradient before replicas are added, instead of the sum's after. Each loss of a model is
  /// clipped on its own, by the norm over the parameters that follow it, and of a step on several batches each batch.
  /// Default: false
  bool per_replica = false;
};

struct StepGraphOptions {
  int replicas = 8;   ///< views of a global batch. Default: 8
  int threads = 0;    ///< threads that work on a step, the caller's among them. Default: 0, the cores
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
};

/// A stretch of a step's time, since its beginning.
struct TimeSpan {
  std::chrono::nanoseconds begin{0};
  std::chrono::nanoseconds end{0};
  int thread = 0;  ///< that worked on it; threads count from 0 in the order in which they came
};

/// Which step it is, and on which batch. Messages name both, steps counted from 1.
struct StepNumbers {
  int64_t step = 0;  ///< steps before this one
  /// Batches of the stream before this one, for `update` before the last one: keys the random choices.
  int64_t batch = 0;
  int64_t update = 1;  ///< 1 for the first update that is done
  /// Gradients come from the models multiplied by this, and are divided by it before anything else is made of them; the
  /// same for all batches of a step. For storage of few bits, see LossScaling. Default: 1
  double loss_scale = 1;
};

/// When a replica's work was done, and by whom.
struct ReplicaTime {
  std::chrono::nanoseconds begin{0};
  std::chrono::nanoseconds backward{0};  ///< the forward pass ended
  std::chrono::nanoseconds end{0};
  std::chrono::nanoseconds reducing{0};  ///< of the backward pass: the additions that this replica's thread did
  int thread = 0;
};

/// Where the time of a step went, on the clock: while the replicas run, in proportion to what their threads did.
struct StepPhases {
  double forward = 0;  ///< seconds
  double backward = 0;
  double reduce = 0;     ///< adding replicas
  double optimizer = 0;  ///< from the end of the last backward pass on: decision and updates

  void add(const StepPhases& other);
};

/// When the work on one batch of a step ran.
struct BatchTimeline {
  std::chrono::steady_clock::time_point began;  ///< what the other times count from
  std::vector<ReplicaTime> replicas;  ///< the reductions that a replica's thread did among it; empty ones are 0
  /// By bucket: the last addition of its tree, that to the batches before, and its sum of squares.
  std::vector<TimeSpan> reductions;
  std::chrono::steady_clock::time_point ended;  ///< for the last batch of a step: with the step

  /// When the last replica's backward pass ended.
  std::chrono::nanoseconds backward_end() const;
  /// Buckets that were complete before that.
  int reduced_during_backward() const;
};

/// When each part of a step ran.
struct StepTimeline {
  std::vector<BatchTimeline> batches;           ///< in their order; at least one
  std::chrono::steady_clock::time_point began;  ///< what `decision` and `updates` count from
  TimeSpan decision;                            ///< norm, finiteness, clipping
  std::vector<TimeSpan> updates;                ///< by bucket; empty when the update was skipped
  std::chrono::steady_clock::time_point ended;
  std::chrono::nanoseconds total{0};           ///< spent on the batches and the update, without waits in between
  std::chrono::nanoseconds after_backward{0};  ///< of it: behind the last backward pass
};

struct StepReport {
  StepResult result;         ///< sums over all replicas, added in their order, batch by batch
  double loss = 0;           ///< the first loss: sum / weight; 0 when the weight is 0
  double gradient_norm = 0;  ///< of the normalised gradient over all trained parameters, before clipping of the sum
  double clip_scale = 1;     ///< what clipping of the sum multiplied the gradient of the first loss with
  bool updated = false;      ///< false: the update was skipped, weights and slots are as before
  std::vector<GroupRate> learning_rates;  ///< of groups of parameters with rates of their own
  std::string skip_reason;                ///< names step and batch, and what was not finite; empty when updated
  StepTimeline timeline;
  StepPhases phases;
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

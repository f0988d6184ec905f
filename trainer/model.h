#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "trainer/batch_view.h"
#include "trainer/parameters.h"

namespace millrace {

/// A loss as a sum and the weight it is to be divided by (labelled tokens, rows, ...). The two travel apart: the
/// trainer adds both over all replicas and divides once. A sum without weight is a mean of 0, never NaN.
struct StepResult {
  double sum_loss = 0;
  double weight = 0;
};

/// What the work of a replica needs beside weights and gradients and what is kept from step to step: the arena of its
/// activations, its tape. Lent to a replica for a step, so there are as many as run at once; used by one thread at a
/// time, not always the same one. Models derive from it.
class Workspace {
 public:
  Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  virtual ~Workspace() = default;
};

/// Told by a model, during `train_step`, which gradients nothing will touch any more.
class GradientListener {
 public:
  /// The gradient of parameter `id` is final: every use of the parameter (tied, called twice) has been walked. Called
  /// once per parameter and step, in any order, on the thread that runs the step; best as early as possible, because
  /// the reduction of a bucket starts when all its parameters are final.
  virtual void gradient_final(int id) = 0;

 protected:
  ~GradientListener() = default;
};

/// What a model is given for one training step of one replica.
struct ReplicaContext {
  uint64_t seed = 0;  ///< of the run; random choices are a pure function of (seed, batch, row in the batch, place)
  int64_t batch = 0;  ///< global batches of the stream before this one; a step may be made of several
  int replica = 0;    ///< for messages; must not decide anything random
  std::span<float> gradients;            ///< `[layout().size()]`; what it holds at first is undefined
  GradientListener* listener = nullptr;  ///< never null in a training step
  Workspace* workspace = nullptr;        ///< made by this model's `make_workspace`; never null
};

/// A model as the trainer sees it: a layout of parameters and a pure function of (rows, weights). It holds no weights
/// and no state of a step, so any number of replicas use one Model at once, and a teacher and its student are two of
/// them.
///
/// Gradients are of `sum_loss`, for each parameter of the layout: a parameter that the rows did not reach is written as
/// 0 and announced like the others. The gaps between parameters are not written.
class Model {
 public:
  virtual ~Model() = default;

  /// The same object for the model's whole life.
  virtual const ParameterLayout& layout() const = 0;
  /// Writes start values, a pure function of `seed`, into `weights` (`[layout().size()]`, 0 before).
  virtual void initialize(std::span<float> weights, uint64_t seed) const = 0;
  virtual std::unique_ptr<Workspace> make_workspace() const = 0;

  /// Forward and backward over `rows` (at least one row). Runs on one thread, starts no work elsewhere that it does not
  /// wait for, and may throw: the step is then abandoned, with the replica and step added to the message.
  virtual StepResult train_step(const BatchView& rows, const float* weights, ReplicaContext& context) const = 0;
  /// Forward only, without dropout, over at least one row.
  virtual StepResult evaluate(const BatchView& rows, const float* weights, Workspace& workspace) const = 0;
};

}  // namespace millrace

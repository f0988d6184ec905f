#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "millrace/trainer/batch_view.h"
#include "millrace/trainer/parameters.h"
#include "millrace/trainer/predictions.h"
#include "millrace/trainer/step_result.h"

namespace millrace {

/// What the work of a replica needs beside weights and gradients and what is kept from step to step: the arena of its
/// activations, its tape. Lent to a replica for a step, so there are as many as run at once; used by one thread at a
/// time, not always the same one. Models derive from it.
class Workspace {
 public:
  Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  virtual ~Workspace() = default;
  /// Bytes that it has taken for steps so far. Default: 0, not known.
  virtual int64_t bytes() const { return 0; }
};

/// Told by a model, during `train_step`, where it is and which gradients nothing will touch any more.
class GradientListener {
 public:
  /// The forward pass has ended. Only for reports of where the time goes; without it the first final gradient counts.
  virtual void backward_begins() {}
  /// The gradient of parameter `id` is final: every use of the parameter (tied, called twice) has been walked. Called
  /// once per parameter and step, in any order, on the thread that runs the step; best as early as possible, because
  /// the reduction of a bucket starts when all its parameters are final.
  virtual void gradient_final(int id) = 0;

 protected:
  ~GradientListener() = default;
};

/// How values that are computed in the forward pass lie in memory until the backward pass needs them. What is computed
/// from them is float32 in any case.
enum class ActivationStorage {
  kFull,      ///< as they were computed
  kBfloat16,  ///< rounded to the nearest bfloat16 (8 bits of precision, the range of float32): half the memory
};

/// What a model is given for one training step of one replica.
struct ReplicaContext {
  uint64_t seed = 0;  ///< of the run; random choices are a pure function of (seed, batch, row in the batch, place)
  int64_t batch = 0;  ///< global batches of the stream before this one; a step may be made of several
  int replica = 0;    ///< for messages; must not decide anything random
  std::span<float> gradients = {};  ///< `[layout().size()]`; what it holds at first is undefined
  /// Of what the model's operators keep; a model of other operators may leave it out of account. Default: kFull
  ActivationStorage activations = ActivationStorage::kFull;
  double loss_scale = 1;  ///< gradients are of the losses times this; the losses themselves are not scaled
  /// Ids of the parameters whose gradients are wanted. Default: all. Others may be written to and announced, but
  /// nobody reads them: a model saves their computation if it can (`Tape::backward` takes them).
  std::optional<std::span<const int>> trainable = std::nullopt;
  GradientListener* listener = nullptr;  ///< never null in a training step
  Workspace* workspace = nullptr;        ///< made by this model's `make_workspace`; never null
};

/// A model as the trainer sees it: a layout of parameters and a pure function of (rows, weights). It holds no weights
/// that are trained and no state of a step, so any number of replicas use one Model at once. A model may be made of
/// others: an encoder that is called twice, a student that keeps its teacher and the teacher's weights as a constant, a
/// frozen network that a perceptual loss looks through.
///
/// Gradients are of the sum of the losses, for each trainable parameter of the layout: a parameter that the rows did
/// not reach is written as 0 and announced like the others. The gaps between parameters are not written.
///
/// A model with several losses (`StepResult::loss`) gives each parameter the gradient of the loss that it follows
/// (`Parameter::loss`), from one forward pass: a generator's parameters follow loss 0, its discriminator's loss 1.
/// Each loss is divided by its own weight and clipped on its own; `OptimizerGroups` gives each its optimizer.
class Model {
 public:
  virtual ~Model() = default;

  /// The same object for the model's whole life.
  virtual const ParameterLayout& layout() const = 0;
  /// What the layout's names and shapes do not tell, and training depends on (heads, epsilons, dropout), in words that
  /// are the same for the same model: a checkpoint is refused by a model that says something else. Default: empty, they
  /// tell all
  virtual std::string describe() const { return {}; }
  /// Writes start values, a pure function of `seed`, into `weights` (`[layout().size()]`, 0 before).
  virtual void initialize(std::span<float> weights, uint64_t seed) const = 0;
  virtual std::unique_ptr<Workspace> make_workspace() const = 0;

  /// Forward and backward over `rows` (at least one row). Runs on one thread, starts no work elsewhere that it does not
  /// wait for, and may throw: the step is then abandoned, with the replica and step added to the message.
  virtual StepResult train_step(const BatchView& rows, const float* weights, ReplicaContext& context) const = 0;
  /// Forward only, without dropout, over at least one row.
  virtual StepResult evaluate(const BatchView& rows, const float* weights, Workspace& workspace) const = 0;
  /// What the model says of each row, in their order, already reduced to what the caller wants (ids, not logits): only
  /// this leaves the replica. An evaluation with metrics over all predictions calls this in place of `evaluate`; the
  /// losses are then taken from `Predictions::result`. Default: throws `kInvalidArgument`, a model without predictions.
  virtual Predictions predict(const BatchView& rows, const float* weights, Workspace& workspace) const;
};

}  // namespace millrace

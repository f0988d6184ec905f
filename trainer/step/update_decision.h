#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "millrace/trainer/optimizers/optimizer.h"
#include "millrace/trainer/parameters.h"
#include "millrace/trainer/step/step_graph_options.h"
#include "millrace/trainer/step/step_numbers.h"
#include "millrace/trainer/step_result.h"

namespace millrace {

/// What is decided about the update of a step.
struct DecidedUpdate {
  StepResult result;         ///< sums over all replicas of all batches
  double loss = 0;           ///< the first loss: sum / weight; 0 when the weight is 0
  double gradient_norm = 0;  ///< of the normalised gradient, before clipping of the sum
  double clip_scale = 1;     ///< what clipping of the sum multiplies the gradient of the first loss with
  /// What is not finite, so that the update must not be made: `the loss of replica 1 is nan (weight 2)`. Empty: it is
  /// made.
  std::string not_finite;
  std::vector<UpdateStep> updates;  ///< by loss: the factors and the rate of the parameters that follow it
};

/// Decides whether a step's update is made, and with which factors: adds up what the replicas of its batches give,
/// looks whether losses and gradients are finite, divides by the weight, clips. It knows sums and squares, no threads.
///
///     UpdateDecision decision(layout, buckets, options);
///     decision.add(results, batch, /*more_follow=*/false);
///     DecidedUpdate decided = decision.decide(numbers, learning_rate, squares, gradients);
///     decision.discard();
///
/// `scale_replica`, `check_losses` and what is constant may be called from any thread; the others from one at a time.
class UpdateDecision {
 public:
  /// `layout` and `buckets`, those that are trained, must outlive it. Throws `kInvalidArgument` for a clipping or
  /// normalization that is not more than 0.
  UpdateDecision(const ParameterLayout& layout, std::span<const Bucket> buckets, const StepGraphOptions& options);

  /// Up to the last one that trained parameters follow.
  size_t num_losses() const { return followed_.size(); }
  /// Whether a replica's gradient must be whole before its first bucket is added to those of others (`scale_replica`).
  bool needs_whole_replicas() const;

  /// Throws `kInvalidArgument` when the model gave fewer losses than its parameters follow.
  void check_losses(const StepResult& result) const;
  /// Where whole replicas are needed: makes a replica's gradient of the sum, `[layout.size()]`, its own mean, and clips
  /// that on its own. One that is not finite stays so, for `decide` to find.
  void scale_replica(std::span<float> gradients, const StepResult& result, double loss_scale) const;

  /// Adds what the replicas, in their order, gave of a batch of the step. `more_follow`: it is not the last; then, and
  /// when others came before, what is not finite names the batch. Throws `kInvalidArgument` as `StepResult::add`.
  void add(std::span<const StepResult> replicas, int64_t batch, bool more_follow);
  /// Batches that were added.
  int64_t batches() const { return batches_; }
  /// Of all that was added. `squares`: by bucket, the sum of squares of `gradients`, which are the sums over all
  /// replicas and batches, `[layout.size()]`.
  DecidedUpdate decide(const StepNumbers& numbers, double learning_rate, std::span<const double> squares,
                       const float* gradients) const;
  /// The next step begins.
  void discard();

 private:
  std::string parameter_not_finite(const Bucket& bucket, const float* gradients) const;

  const ParameterLayout& layout_;
  const std::span<const Bucket> buckets_;
  const int replicas_;
  const GradientNormalization normalization_;
  const std::optional<Clipping> clipping_;
  const std::vector<uint8_t> followed_;  // by loss: 1 when a parameter that is trained follows it

  int64_t batches_ = 0;
  StepResult total_;
  std::string not_finite_;  // the first loss that was not
};

}  // namespace millrace

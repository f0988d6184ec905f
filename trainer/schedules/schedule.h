#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace millrace {

/// A learning rate as a pure function of the step, in float64. Steps count the updates done before this one: 0 for the
/// first. Immutable; a checkpoint holds the step and `describe()`.
class Schedule {
 public:
  virtual ~Schedule() = default;
  virtual double learning_rate(int64_t step) const = 0;
  /// The kind and its numbers in one line; two schedules with the same line are the same function.
  virtual std::string describe() const = 0;
};

/// The same rate always.
std::unique_ptr<Schedule> constant_rate(double learning_rate);

struct WarmupDecayOptions {
  double learning_rate = 1e-4;  ///< the highest. Default: 1e-4
  int64_t warmup_steps = 0;     ///< W: the rate rises linearly from 0. Default: 0
  int64_t total_steps = 0;      ///< N: the rate stays at the end from here on; at least W, and 1
  double end_rate = 0;          ///< Default: 0
  double start_rate = 0;        ///< at step 0 when there is a warm-up. Default: 0
};

/// Hugging Face's linear decay with warm-up: `lr s / W` below W (from the start rate, where one is given), then linear
/// from lr at W to the end rate at N. The rate of the first step is 0 when there is a warm-up and no start rate.
///
///     auto schedule = linear_warmup_decay({.learning_rate = 1e-4, .warmup_steps = 12, .total_steps = 250});
std::unique_ptr<Schedule> linear_warmup_decay(WarmupDecayOptions options);

struct ModelsRepoDecayOptions {
  double learning_rate = 1e-4;  ///< Default: 1e-4
  int64_t warmup_steps = 0;     ///< W. Default: 0
  int64_t total_steps = 0;      ///< N, counted from step 0; at least 1
  double end_rate = 0;          ///< Default: 0
  double power = 1;             ///< Default: 1
};

/// Polynomial decay as tensorflow/models has it: the decay runs from step 0, below the warm-up, so that the rate jumps
/// down by the factor 1 - W/N (for power 1) where the warm-up ends; to the end rate when W is N or more.
std::unique_ptr<Schedule> models_repo_warmup_decay(ModelsRepoDecayOptions options);

struct CosineWarmupOptions {
  double initial_rate = 0;   ///< at step 0 when there is a warm-up. Default: 0
  double maximum_rate = 0;   ///< at step W
  int64_t warmup_steps = 0;  ///< W. Default: 0
  int64_t decay_steps = 0;   ///< D, after the warm-up
  double alpha = 0;          ///< the end rate as a share of the maximum. Default: 0
};

/// Linear from the initial rate to the maximum at W, then half a cosine down to alpha times the maximum at W + D.
/// Without decay steps the maximum stays.
std::unique_ptr<Schedule> cosine_warmup(CosineWarmupOptions options);

/// Which rate holds at the very step of a milestone.
enum class AtMilestone {
  kNewValue,  ///< the lower one (torch MultiStepLR)
  kOldValue,  ///< still the higher one (Keras PiecewiseConstantDecay)
};

/// `learning_rate * factor^k`, k = milestones reached. Milestones must ascend.
std::unique_ptr<Schedule> milestones(double learning_rate, std::vector<int64_t> steps, double factor,
                                     AtMilestone at_milestone = AtMilestone::kNewValue);

}  // namespace millrace

#pragma once

#include <cstdint>
#include <string>

namespace millrace {

/// Dynamic loss scaling (arXiv 1710.03740): gradients are computed multiplied by a scale, so that small ones survive
/// storage of few bits, and divided by it again. A step whose gradient is not finite is skipped and lowers the scale;
/// a long row of good ones raises it.
///
/// The hook: `TrainerOptions::loss_scaling` turns it on, models multiply by `ReplicaContext::loss_scale`.
struct LossScaling {
  double initial = 65536;          ///< Default: 65536
  double factor = 2;               ///< by which it rises and falls, more than 1. Default: 2
  int64_t growth_interval = 2000;  ///< steps without a skip before it rises. Default: 2000
  double lowest = 1;               ///< it falls no further; only then does a skip count as one. Default: 1
  double highest = 16777216;       ///< it rises no further; a finite float32. Default: 2^24

  /// Throws `kInvalidArgument` for numbers that cannot work.
  void check() const;
  std::string describe() const;
};

/// The scale now, a part of a checkpoint.
struct LossScale {
  double scale = 1;
  int64_t good_steps = 0;  ///< since it last changed

  /// After a step; `updated`: it was finite. Returns whether a step that was not had a larger scale to blame.
  bool step_ends(const LossScaling& scaling, bool updated);
};

}  // namespace millrace

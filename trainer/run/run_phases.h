#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "millrace/trainer/optimizers/optimizer.h"
#include "millrace/trainer/run/run_options.h"
#include "millrace/trainer/schedules/schedule.h"

namespace millrace {

/// A phase and its place in the training.
struct RunPhase {
  PhaseOptions options = {};
  int64_t first_step = 0;         ///< steps of the training before it
  int64_t steps = 0;              ///< of it
  int64_t warmup_steps = 0;       ///< of these
  std::string freeze_field = {};  ///< what `freeze` is called in errors: `--freeze`, `phase 2: freeze`

  [[nodiscard]] std::unique_ptr<Schedule> schedule() const;
  /// Throws `kInvalidArgument` naming the option, or the phase, where `freeze` matches no parameter.
  void check_frozen(const ParameterLayout& layout) const;
  /// With decay of all parameters but layer norms and biases.
  [[nodiscard]] std::unique_ptr<Optimizer> optimizer(const ParameterLayout& layout) const;
};

/// Steps of an epoch of `batches` batches, the last of which may have fewer than `accumulate`.
[[nodiscard]] constexpr int64_t steps_of(int64_t batches, int64_t accumulate) {
  return (batches + accumulate - 1) / accumulate;
}

/// Whether it must be known how many batches an epoch has.
[[nodiscard]] bool counts_epochs(const RunOptions& options);

/// Throws `kInvalidArgument` with one line for what `phases_of` refuses whatever an epoch's length is, and for a
/// `freeze` that is no regular expression.
void check_phases(const RunOptions& options);

/// The phases of a run, one unless `RunOptions::phases` says otherwise. `batches_per_epoch`: 0 when it is not known.
/// Throws `kInvalidArgument` with one line for numbers that cannot be together, and where epochs are to be counted that
/// nobody knows the length of.
[[nodiscard]] std::vector<RunPhase> phases_of(const RunOptions& options, int64_t batches_per_epoch);

}  // namespace millrace

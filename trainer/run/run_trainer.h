#pragma once

#include <memory>
#include <span>

#include "millrace/trainer/run/run_phases.h"
#include "millrace/trainer/run/training_run.h"
#include "millrace/trainer/trainer.h"

namespace millrace {

/// What the options say of the steps: without folders, evaluations and frozen parameters.
[[nodiscard]] TrainerOptions step_options(const RunOptions& options, const RunData& data);

/// A trainer with these phases, of which there is one at least, that stands where the checkpoint `resume` does; empty:
/// at the beginning. `how`: frozen parameters and steps in all are those of `phases`. Throws `kInvalidArgument` where
/// `freeze` matches nothing, and as Trainer does.
[[nodiscard]] std::unique_ptr<Trainer> make_trainer(const Model& model, std::span<const RunPhase> phases,
                                                    TrainerOptions how, const std::string& resume);

}  // namespace millrace

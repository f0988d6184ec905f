#include "millrace/trainer/run/run_trainer.h"

#include <utility>

namespace millrace {

TrainerOptions step_options(const RunOptions& options, const RunData& data) {
  TrainerOptions how{.step = {.replicas = options.replicas,
                              .threads = options.threads,
                              .seed = static_cast<uint64_t>(options.seed),
                              .watchdog = options.watchdog},
                     .accumulate = options.accumulate,
                     .report_every = options.report_every,
                     .token_features = data.token_features,
                     .batches = data.description};
  if (options.activations == "bfloat16") how.step.activations = ActivationStorage::kBfloat16;
  if (options.clip_norm > 0) how.step.clipping = Clipping{.norm = options.clip_norm};
  return how;
}

std::unique_ptr<Trainer> make_trainer(const Model& model, std::span<const RunPhase> phases, TrainerOptions how,
                                      const std::string& resume) {
  const ParameterLayout& layout = model.layout();
  for (const RunPhase& phase : phases) phase.check_frozen(layout);
  how.frozen = phases.front().options.freeze;
  how.total_steps = phases.back().first_step + phases.back().steps;
  auto trainer =
      std::make_unique<Trainer>(model, phases.front().optimizer(layout), phases.front().schedule(), std::move(how));
  for (const RunPhase& phase : phases.subspan(1)) {
    trainer->add_phase({.first_step = phase.first_step,
                        .optimizer = phase.optimizer(layout),
                        .schedule = phase.schedule(),
                        .frozen = phase.options.freeze});
  }
  if (!resume.empty()) trainer->resume(resume);
  return trainer;
}

}  // namespace millrace

#include "millrace/trainer/run/run_phases.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/optimizers/adam.h"
#include "millrace/trainer/optimizers/lamb.h"
#include "millrace/trainer/optimizers/radam.h"
#include "millrace/trainer/trainer_options.h"

namespace millrace {
namespace {

// Of a phase, by what it says: its steps, and what of the options cannot be together.
class PhaseSteps {
 public:
  // `where`: in front of what is wrong; `dashes`: of the options' names.
  PhaseSteps(const PhaseOptions& options, std::string where, std::string_view dashes)
      : o_(options), where_(std::move(where)), dashes_(dashes) {}

  RunPhase place(int64_t first_step, int64_t steps_per_epoch) const {
    RunPhase phase{.options = o_, .first_step = first_step};
    // By epochs alone, or by both, when epochs end first.
    phase.steps = o_.epochs > 0 ? steps_of_epochs(steps_per_epoch) : o_.steps;
    const bool by_epochs = o_.epochs > 0 && (o_.steps == 0 || phase.steps < o_.steps);
    if (!by_epochs) phase.steps = o_.steps;
    require(phase.steps > 0, fmt::format("neither {} nor {} is given", name("steps"), name("epochs")));
    phase.warmup_steps = o_.warmup_steps.share > 0
                             ? std::llround(o_.warmup_steps.share * static_cast<double>(phase.steps))
                             : o_.warmup_steps.steps;
    if (o_.warmup_steps.may_be_fewer) phase.warmup_steps = std::min(phase.warmup_steps, phase.steps);
    require(phase.warmup_steps <= phase.steps,
            by_epochs ? fmt::format("{} is {}, must be at most the steps of {} {}, which are {}", name("warmup-steps"),
                                    phase.warmup_steps, name("epochs"), o_.epochs, phase.steps)
                      : fmt::format("{} is {}, must be at most {}, which is {}", name("warmup-steps"),
                                    phase.warmup_steps, name("steps"), phase.steps));
    check_rates(phase);
    return phase;
  }

 private:
  int64_t steps_of_epochs(int64_t steps_per_epoch) const {
    require(steps_per_epoch > 0,
            fmt::format("{} is {}, but how many batches an epoch has is not known", name("epochs"), o_.epochs));
    require(o_.epochs <= kMostSteps / steps_per_epoch,
            fmt::format("{} is {}; with {} steps each that is more than {} steps", name("epochs"), o_.epochs,
                        steps_per_epoch, kMostSteps));
    return o_.epochs * steps_per_epoch;
  }

  void check_rates(const RunPhase& phase) const {
    for (const auto& [rate, option] : {std::pair{o_.start_rate, "start-rate"}, std::pair{o_.end_rate, "end-rate"}}) {
      require(rate <= o_.learning_rate, fmt::format("{} is {}, must be at most {}, which is {}", name(option), rate,
                                                    name("learning-rate"), o_.learning_rate));
    }
    require(o_.start_rate == 0 || phase.warmup_steps > 0,
            fmt::format("{} is {}, but there is no warm-up", name("start-rate"), o_.start_rate));
  }

  std::string name(std::string_view option) const { return fmt::format("{}{}", dashes_, option); }
  void require(bool holds, const std::string& message) const {
    if (!holds) throw ErrorException(ErrorCode::kInvalidArgument, where_ + message);
  }

  const PhaseOptions& o_;
  const std::string where_;
  const std::string_view dashes_;
};

}  // namespace

std::unique_ptr<Schedule> RunPhase::schedule() const {
  if (options.decay == "cosine") {
    return cosine_warmup({.initial_rate = options.start_rate,
                          .maximum_rate = options.learning_rate,
                          .warmup_steps = warmup_steps,
                          .decay_steps = steps - warmup_steps,
                          .alpha = options.end_rate / options.learning_rate});
  }
  return linear_warmup_decay({.learning_rate = options.learning_rate,
                              .warmup_steps = warmup_steps,
                              .total_steps = steps,
                              .end_rate = options.end_rate,
                              .start_rate = options.start_rate});
}

std::unique_ptr<Optimizer> RunPhase::optimizer(const ParameterLayout& layout) const {
  const std::string excluded(kUsualExclusion);
  if (options.optimizer == "radam") {
    return std::make_unique<Radam>(layout,
                                   RadamOptions{.weight_decay = options.weight_decay, .exclude_from_decay = excluded});
  }
  if (options.optimizer == "lamb") {
    return std::make_unique<Lamb>(layout,
                                  LambOptions{.weight_decay = options.weight_decay, .exclude_from_decay = excluded});
  }
  return std::make_unique<Adam>(layout, adam_weight_decay(options.weight_decay));
}

bool counts_epochs(const RunOptions& options) {
  if (options.phases.empty()) return options.phase.epochs > 0;
  return std::ranges::any_of(options.phases, [](const PhaseOptions& phase) { return phase.epochs > 0; });
}

std::vector<RunPhase> phases_of(const RunOptions& options, int64_t batches_per_epoch) {
  const int64_t steps_per_epoch = steps_of(batches_per_epoch, options.accumulate);
  if (options.phases.empty()) return {PhaseSteps(options.phase, "", "--").place(0, steps_per_epoch)};
  std::vector<RunPhase> phases;
  int64_t steps = 0;
  for (const PhaseOptions& phase : options.phases) {
    const std::string where = fmt::format("phase {}: ", phases.size() + 1);
    phases.push_back(PhaseSteps(phase, where, "").place(steps, steps_per_epoch));
    steps += phases.back().steps;
    if (steps > kMostSteps) {
      throw ErrorException(ErrorCode::kInvalidArgument,
                           fmt::format("{}the training would have more than {} steps", where, kMostSteps));
    }
  }
  return phases;
}

}  // namespace millrace

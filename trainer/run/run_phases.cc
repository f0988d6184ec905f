#include "millrace/trainer/run/run_phases.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/name_pattern.h"
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

  // Refuses what cannot be, however long an epoch is.
  void check() const {
    require(o_.steps > 0 || o_.epochs > 0, fmt::format("neither {} nor {} is given", name("steps"), name("epochs")));
    if (o_.steps > 0) (void)warmup_of(o_.steps, fmt::format("{}, which is {}", name("steps"), o_.steps));
    for (const auto& [rate, option] : {std::pair{o_.start_rate, "start-rate"}, std::pair{o_.end_rate, "end-rate"}}) {
      require(rate <= o_.learning_rate, fmt::format("{} is {}, must be at most {}, which is {}", name(option), rate,
                                                    name("learning-rate"), o_.learning_rate));
    }
    need_warmup_for_start_rate(o_.warmup_steps.steps > 0 || o_.warmup_steps.share > 0);
    check_milestones();
    if (!o_.freeze.empty()) NamePattern(freeze_field(), o_.freeze);
  }

  RunPhase place(int64_t first_step, int64_t steps_per_epoch) const {
    check();
    RunPhase phase{.options = o_, .first_step = first_step, .freeze_field = freeze_field()};
    // By epochs alone, or by both, when epochs end first.
    phase.steps = o_.epochs > 0 ? steps_of_epochs(steps_per_epoch) : o_.steps;
    const bool by_epochs = o_.epochs > 0 && (o_.steps == 0 || phase.steps < o_.steps);
    if (!by_epochs) phase.steps = o_.steps;
    require(o_.milestones.empty() || o_.milestones.back() < phase.steps,
            fmt::format("{} has {}, and there are {} steps", name("milestones"),
                        o_.milestones.empty() ? 0 : o_.milestones.back(), phase.steps));
    phase.warmup_steps = warmup_of(
        phase.steps, by_epochs ? fmt::format("the steps of {} {}, which are {}", name("epochs"), o_.epochs, phase.steps)
                               : fmt::format("{}, which is {}", name("steps"), phase.steps));
    need_warmup_for_start_rate(phase.warmup_steps > 0);
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

  // Of so many steps; `what_they_are`: for messages.
  int64_t warmup_of(int64_t steps, const std::string& what_they_are) const {
    const Warmup& warmup = o_.warmup_steps;
    if (by_milestones()) return 0;
    if (warmup.share > 0) {  // a rate to start from is that of one step at least
      return std::max<int64_t>(o_.start_rate > 0 ? 1 : 0, std::llround(warmup.share * static_cast<double>(steps)));
    }
    if (warmup.may_be_fewer) return std::min(warmup.steps, steps);
    require(warmup.steps <= steps,
            fmt::format("{} is {}, must be at most {}", name("warmup-steps"), warmup.steps, what_they_are));
    return warmup.steps;
  }

  bool by_milestones() const { return o_.decay == "milestones"; }

  void check_milestones() const {
    if (!by_milestones()) {
      const char* given = o_.milestone_factor > 0 ? "milestone-factor" : "milestones";
      return require(o_.milestones.empty() && o_.milestone_factor == 0,
                     fmt::format("{} is given, but {} is {}", name(given), name("decay"), o_.decay));
    }
    require(!o_.milestones.empty(),
            fmt::format("{} is milestones, and {} are not given", name("decay"), name("milestones")));
    // A warm-up that nobody has asked for is left out.
    const bool warms_up = !o_.warmup_steps.may_be_fewer && (o_.warmup_steps.steps > 0 || o_.warmup_steps.share > 0);
    require(!warms_up && o_.start_rate == 0 && o_.end_rate == 0,
            fmt::format("{} milestones has neither {}, {} nor {}", name("decay"), name("warmup-steps"),
                        name("start-rate"), name("end-rate")));
  }

  void need_warmup_for_start_rate(bool there_is_one) const {
    require(o_.start_rate == 0 || there_is_one,
            fmt::format("{} is {}, but there is no warm-up", name("start-rate"), o_.start_rate));
  }

  std::string freeze_field() const { return where_ + name("freeze"); }
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
  if (options.decay == "milestones") {
    return milestones(options.learning_rate, options.milestones,
                      options.milestone_factor > 0 ? options.milestone_factor : 0.5);
  }
  return linear_warmup_decay({.learning_rate = options.learning_rate,
                              .warmup_steps = warmup_steps,
                              .total_steps = steps,
                              .end_rate = options.end_rate,
                              .start_rate = options.start_rate});
}

void RunPhase::check_frozen(const ParameterLayout& layout) const {
  if (options.freeze.empty()) return;
  const NamePattern pattern(freeze_field, options.freeze);
  pattern.need_match(
      std::ranges::any_of(layout.parameters(), [&](const Parameter& parameter) { return pattern.matches(parameter); }));
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

namespace {

std::vector<PhaseSteps> described_phases(const RunOptions& options) {
  if (options.phases.empty()) return {PhaseSteps(options.phase, "", "--")};
  std::vector<PhaseSteps> phases;
  for (const PhaseOptions& phase : options.phases) {
    phases.emplace_back(phase, fmt::format("phase {}: ", phases.size() + 1), "");
  }
  return phases;
}

}  // namespace

void check_phases(const RunOptions& options) {
  for (const PhaseSteps& phase : described_phases(options)) phase.check();
}

std::vector<RunPhase> phases_of(const RunOptions& options, int64_t batches_per_epoch) {
  const int64_t steps_per_epoch = steps_of(batches_per_epoch, options.accumulate);
  std::vector<RunPhase> phases;
  int64_t steps = 0;
  for (const PhaseSteps& phase : described_phases(options)) {
    phases.push_back(phase.place(steps, steps_per_epoch));
    steps += phases.back().steps;
    if (steps > kMostSteps) {
      throw ErrorException(
          ErrorCode::kInvalidArgument,
          fmt::format("phase {}: the training would have more than {} steps", phases.size(), kMostSteps));
    }
  }
  return phases;
}

}  // namespace millrace

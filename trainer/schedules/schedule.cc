#include "millrace/trainer/schedules/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

void need(bool holds, const std::string& message) {
  if (!holds) throw ErrorException(ErrorCode::kInvalidArgument, message);
}

void check_rate(const char* name, double rate) {
  need(std::isfinite(rate) && rate >= 0, fmt::format("{} is {}; at least 0 is needed", name, rate));
}

void check_steps(int64_t warmup_steps, int64_t total_steps) {
  need(warmup_steps >= 0 && total_steps >= std::max<int64_t>(1, warmup_steps),
       fmt::format("{} warm-up steps of {} steps; 0 <= warm-up <= total and total >= 1 are needed", warmup_steps,
                   total_steps));
}

class ConstantRate final : public Schedule {
 public:
  explicit ConstantRate(double rate) : rate_(rate) {}
  double learning_rate(int64_t) const override { return rate_; }
  std::string describe() const override { return fmt::format("constant_rate({})", rate_); }

 private:
  double rate_;
};

class LinearWarmupDecay final : public Schedule {
 public:
  explicit LinearWarmupDecay(WarmupDecayOptions options) : o_(options) {}
  double learning_rate(int64_t step) const override {
    const auto s = static_cast<double>(step);
    const auto w = static_cast<double>(o_.warmup_steps);
    const auto n = static_cast<double>(o_.total_steps);
    if (step < o_.warmup_steps) return o_.start_rate + (o_.learning_rate - o_.start_rate) * (s / w);
    if (o_.total_steps == o_.warmup_steps) return o_.end_rate;
    return (o_.learning_rate - o_.end_rate) * (1 - std::min(s - w, n - w) / (n - w)) + o_.end_rate;
  }
  std::string describe() const override {
    // Without a start rate as versions before there was one say it: checkpoints are compared by it.
    return fmt::format("linear_warmup_decay(learning_rate={}, warmup_steps={}, total_steps={}, end_rate={}{})",
                       o_.learning_rate, o_.warmup_steps, o_.total_steps, o_.end_rate,
                       o_.start_rate > 0 ? fmt::format(", start_rate={}", o_.start_rate) : "");
  }

 private:
  WarmupDecayOptions o_;
};

class ModelsRepoDecay final : public Schedule {
 public:
  explicit ModelsRepoDecay(ModelsRepoDecayOptions options) : o_(options) {}
  double learning_rate(int64_t step) const override {
    const auto s = static_cast<double>(step);
    if (step < o_.warmup_steps) return o_.learning_rate * (s / static_cast<double>(o_.warmup_steps));
    const auto n = static_cast<double>(o_.total_steps);
    return (o_.learning_rate - o_.end_rate) * std::pow(1 - std::min(s, n) / n, o_.power) + o_.end_rate;
  }
  std::string describe() const override {
    return fmt::format(
        "models_repo_warmup_decay(learning_rate={}, warmup_steps={}, total_steps={}, end_rate={}, power={})",
        o_.learning_rate, o_.warmup_steps, o_.total_steps, o_.end_rate, o_.power);
  }

 private:
  ModelsRepoDecayOptions o_;
};

class CosineWarmup final : public Schedule {
 public:
  explicit CosineWarmup(CosineWarmupOptions options) : o_(options) {}
  double learning_rate(int64_t step) const override {
    const int64_t counted = std::min(step, o_.warmup_steps + o_.decay_steps);
    const auto s = static_cast<double>(counted);
    const auto w = static_cast<double>(o_.warmup_steps);
    if (counted <= o_.warmup_steps) {
      return o_.warmup_steps == 0 ? o_.maximum_rate : o_.initial_rate + (o_.maximum_rate - o_.initial_rate) * s / w;
    }
    const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * (s - w) / static_cast<double>(o_.decay_steps)));
    return o_.maximum_rate * ((1 - o_.alpha) * cosine + o_.alpha);
  }
  std::string describe() const override {
    return fmt::format("cosine_warmup(initial_rate={}, maximum_rate={}, warmup_steps={}, decay_steps={}, alpha={})",
                       o_.initial_rate, o_.maximum_rate, o_.warmup_steps, o_.decay_steps, o_.alpha);
  }

 private:
  CosineWarmupOptions o_;
};

class Milestones final : public Schedule {
 public:
  Milestones(double rate, std::vector<int64_t> steps, double factor, AtMilestone at_milestone)
      : rate_(rate), steps_(std::move(steps)), factor_(factor), at_milestone_(at_milestone) {}
  double learning_rate(int64_t step) const override {
    const auto reached = at_milestone_ == AtMilestone::kNewValue ? std::upper_bound(steps_.begin(), steps_.end(), step)
                                                                 : std::lower_bound(steps_.begin(), steps_.end(), step);
    return rate_ * std::pow(factor_, static_cast<double>(reached - steps_.begin()));
  }
  std::string describe() const override {
    return fmt::format("milestones(learning_rate={}, steps=[{}], factor={}, at_milestone={})", rate_,
                       fmt::join(steps_, ", "), factor_,
                       at_milestone_ == AtMilestone::kNewValue ? "new value" : "old value");
  }

 private:
  double rate_;
  std::vector<int64_t> steps_;
  double factor_;
  AtMilestone at_milestone_;
};

}  // namespace

std::unique_ptr<Schedule> constant_rate(double learning_rate) {
  check_rate("learning_rate", learning_rate);
  return std::make_unique<ConstantRate>(learning_rate);
}

std::unique_ptr<Schedule> linear_warmup_decay(WarmupDecayOptions options) {
  check_rate("learning_rate", options.learning_rate);
  check_rate("end_rate", options.end_rate);
  check_rate("start_rate", options.start_rate);
  check_steps(options.warmup_steps, options.total_steps);
  return std::make_unique<LinearWarmupDecay>(options);
}

std::unique_ptr<Schedule> models_repo_warmup_decay(ModelsRepoDecayOptions options) {
  check_rate("learning_rate", options.learning_rate);
  check_rate("end_rate", options.end_rate);
  check_rate("power", options.power);
  need(options.warmup_steps >= 0 && options.total_steps >= 1,
       fmt::format("{} warm-up steps of {} steps; at least 0 and 1 are needed", options.warmup_steps,
                   options.total_steps));
  return std::make_unique<ModelsRepoDecay>(options);
}

std::unique_ptr<Schedule> cosine_warmup(CosineWarmupOptions options) {
  check_rate("initial_rate", options.initial_rate);
  check_rate("maximum_rate", options.maximum_rate);
  check_rate("alpha", options.alpha);
  need(options.warmup_steps >= 0 && options.decay_steps >= 0,
       fmt::format("{} warm-up and {} decay steps; at least 0 of both are needed", options.warmup_steps,
                   options.decay_steps));
  return std::make_unique<CosineWarmup>(options);
}

std::unique_ptr<Schedule> milestones(double learning_rate, std::vector<int64_t> steps, double factor,
                                     AtMilestone at_milestone) {
  check_rate("learning_rate", learning_rate);
  check_rate("factor", factor);
  need(std::is_sorted(steps.begin(), steps.end()), "milestones must ascend");
  return std::make_unique<Milestones>(learning_rate, std::move(steps), factor, at_milestone);
}

}  // namespace millrace

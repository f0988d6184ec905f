#include "tests/trainer/optimizers/golden_updates.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "trainer/optimizers/adam.h"
#include "trainer/optimizers/lamb.h"
#include "trainer/optimizers/radam.h"
#include "trainer/optimizers/sgd.h"
#include "trainer/schedules/schedule.h"

namespace millrace::test {
namespace {

using Json = nlohmann::json;

Json read_json(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) throw std::runtime_error("cannot read " + file);
  return Json::parse(stream);
}

std::unique_ptr<Optimizer> make_optimizer(const std::string& rule, const Json& config, const ParameterLayout& layout) {
  const auto number = [&](const char* name) { return config.value(name, 0.0); };
  const std::string exclude = config.value("exclude_regex", std::string());
  if (rule == "sgd" || rule == "momentum") return std::make_unique<Sgd>(SgdOptions{.momentum = number("momentum")});
  if (rule == "radam") {
    return std::make_unique<Radam>(
        layout, RadamOptions{number("beta1"), number("beta2"), number("eps"), number("weight_decay"), exclude});
  }
  if (rule == "lamb") {
    return std::make_unique<Lamb>(
        layout, LambOptions{number("beta1"), number("beta2"), number("eps"), number("weight_decay"), exclude});
  }
  AdamOptions options;
  if (rule == "adamw") {
    options = adamw(number("weight_decay"), exclude);
  } else if (rule == "adam_weight_decay") {
    options = adam_weight_decay(number("weight_decay"), exclude);
  } else if (rule == "adam_epsilon_hat") {
    options.epsilon_form = AdamEpsilon::kHat;
  } else if (rule != "adam") {
    throw std::runtime_error("unknown rule " + rule);
  }
  options.beta1 = number("beta1");
  options.beta2 = number("beta2");
  options.epsilon = number("eps");
  return std::make_unique<Adam>(layout, options);
}

std::unique_ptr<Schedule> make_schedule(const std::string& kind, const Json& c) {
  if (kind == "hf_linear_warmup_decay") {
    return linear_warmup_decay(
        {c["lr"].get<double>(), c["W"].get<int64_t>(), c["N"].get<int64_t>(), c["end_lr"].get<double>()});
  }
  if (kind == "models_repo_warmup_decay") {
    return models_repo_warmup_decay({c["lr"].get<double>(), c["W"].get<int64_t>(), c["N"].get<int64_t>(),
                                     c["end_lr"].get<double>(), c["power"].get<double>()});
  }
  if (kind == "cosine_warmup") {
    return cosine_warmup({c["init"].get<double>(), c["max"].get<double>(), c["W"].get<int64_t>(), c["D"].get<int64_t>(),
                          c["alpha"].get<double>()});
  }
  if (kind == "milestones") {
    return milestones(c["lr"].get<double>(), c["milestones"].get<std::vector<int64_t>>(), c["factor"].get<double>(),
                      c["at_milestone"] == "new value" ? AtMilestone::kNewValue : AtMilestone::kOldValue);
  }
  throw std::runtime_error("unknown kind of schedule " + kind);
}

ClipForm clip_form(const std::string& name) { return name == "tf" ? ClipForm::kTf : ClipForm::kTorch; }

// Collects the differences of one case.
class Comparison {
 public:
  explicit Comparison(std::string name) : case_{.name = std::move(name)} {}
  void near(double found, double expected, double unit, double limit, const std::string& what) {
    const double difference = std::abs(found - expected) / unit;
    // Also one that is no number.
    if (!(difference <= limit) && case_.failure.empty()) {
      case_.failure = fmt::format("{}: found {}, expected {}", what, found, expected);
    }
    if (!(difference <= case_.largest_difference)) case_.largest_difference = difference;
  }
  void fail(const std::string& what) {
    if (case_.failure.empty()) case_.failure = what;
  }
  GoldenReport::Case take() { return std::move(case_); }

 private:
  GoldenReport::Case case_;
};

// One problem in buckets of the smallest size, so that tensors are torn apart, with gradients four times too large that
// the scale puts right.
class Problem {
 public:
  Problem(const Json& problem, const Json& example) : problem_(problem), example_(example) {
    for (const auto& [tensor, values] : problem["params"].items()) {
      layout_.add(tensor, {static_cast<int64_t>(values.size())});
    }
    layout_.finish(64);
    optimizer_ = make_optimizer(example["rule"], example["config"], layout_);
    weights_ = FlatBuffer(layout_.size());
    gradients_ = FlatBuffer(layout_.size());
    for (size_t slot = 0; slot < optimizer_->slot_names().size(); ++slot) {
      slots_.emplace_back(layout_.size());
      slot_data_.push_back(slots_.back().data());
    }
    for (const Parameter& parameter : layout_.parameters()) {
      const auto values = problem["params"][parameter.name].get<std::vector<float>>();
      std::copy(values.begin(), values.end(), weights_.data() + parameter.offset);
    }
  }

  void update(int64_t k) {
    double squares = 0;
    for (const Parameter& parameter : layout_.parameters()) {
      const auto values = problem_["grads"][parameter.name][static_cast<size_t>(k)].get<std::vector<float>>();
      for (size_t i = 0; i < values.size(); ++i) {
        gradients_.data()[parameter.offset + static_cast<int64_t>(i)] = values[i] * 4;
        squares += static_cast<double>(values[i]) * values[i];
      }
    }
    const Json& config = example_["config"];
    double scale = 0.25;
    if (config.contains("clip_norm")) {
      scale *= clip_scale(std::sqrt(squares), config["clip_norm"].get<double>(), clip_form(config["clip_form"]));
    }
    const UpdateStep step{k + 1, config["lr"].get<double>(), static_cast<float>(scale)};
    const UpdateBuffers buffers{weights_.data(), gradients_.data(), slot_data_};
    std::vector<LayerSquares> norms(layout_.parameters().size());
    const auto each_range = [&](const auto& call) {
      for (const Bucket& bucket : layout_.buckets()) {
        for (const UpdateRange& range : ranges_of(layout_, bucket))
          call(range, norms[static_cast<size_t>(range.parameter)]);
      }
    };
    if (!optimizer_->layerwise()) {
      each_range([&](const UpdateRange& range, LayerSquares&) { optimizer_->update(range, step, buffers); });
      return;
    }
    each_range([&](const UpdateRange& range, LayerSquares& norm) {
      const LayerSquares part = optimizer_->direction(range, step, buffers);
      norm.weights += part.weights;
      norm.direction += part.direction;
    });
    each_range(
        [&](const UpdateRange& range, const LayerSquares& norm) { optimizer_->apply(range, step, buffers, norm); });
  }

  void compare_weights(const Json& golden, int64_t k, Comparison& comparison) const {
    for (const Parameter& parameter : layout_.parameters()) {
      const auto expected = golden["trajectory"][parameter.name][static_cast<size_t>(k)].get<std::vector<double>>();
      double largest = 1;
      for (const double value : expected) largest = std::max(largest, std::abs(value));
      for (size_t i = 0; i < expected.size(); ++i) {
        comparison.near(weights_.data()[parameter.offset + static_cast<int64_t>(i)], expected[i], largest, 4e-7,
                        fmt::format("{}[{}] after update {}", parameter.name, i, k + 1));
      }
    }
  }

  void compare_slots(const Json& golden, Comparison& comparison) const {
    const Json& final_slots = golden["final_slots"];
    if (final_slots.size() != layout_.parameters().size() * slots_.size()) {
      comparison.fail(
          fmt::format("{} slots, expected {}", layout_.parameters().size() * slots_.size(), final_slots.size()));
      return;
    }
    for (const Parameter& parameter : layout_.parameters()) {
      for (size_t slot = 0; slot < slots_.size(); ++slot) {
        const std::string name = parameter.name + "." + std::string(optimizer_->slot_names()[slot]);
        const auto expected = final_slots[name].get<std::vector<double>>();
        for (size_t i = 0; i < expected.size(); ++i) {
          // In units of the limit of weights, so that one figure is for both.
          comparison.near(slots_[slot].data()[parameter.offset + static_cast<int64_t>(i)], expected[i],
                          (1e-8 + 1e-6 * std::abs(expected[i])) / 4e-7, 4e-7, fmt::format("{}[{}]", name, i));
        }
      }
    }
  }

 private:
  const Json& problem_;
  const Json& example_;
  ParameterLayout layout_;
  std::unique_ptr<Optimizer> optimizer_;
  FlatBuffer weights_;
  FlatBuffer gradients_;
  std::vector<FlatBuffer> slots_;
  std::vector<float*> slot_data_;
};

}  // namespace

int GoldenReport::failed() const {
  return static_cast<int>(std::ranges::count_if(cases, [](const Case& c) { return !c.failure.empty(); }));
}

GoldenReport check_optimizers(const std::string& file) {
  const Json golden = read_json(file);
  GoldenReport report;
  for (const auto& [name, example] : golden["cases"].items()) {
    for (const auto& [problem_name, problem] : golden["problems"].items()) {
      const std::string key = problem_name + ".float32";
      Comparison comparison(fmt::format("{} {}", name, problem_name));
      if (example.contains(key)) {
        Problem trained(problem, example);
        for (int64_t k = 0; k < golden["steps"].get<int64_t>(); ++k) {
          trained.update(k);
          trained.compare_weights(example[key], k, comparison);
        }
        trained.compare_slots(example[key], comparison);
      } else {
        comparison.fail("no " + key);
      }
      report.cases.push_back(comparison.take());
    }
  }
  return report;
}

GoldenReport check_optimizer_formulas(const std::string& file) {
  const Json golden = read_json(file);
  GoldenReport report;
  for (const Json& example : golden["clip_by_global_norm"]) {
    Comparison comparison("clip_by_global_norm " + example["name"].get<std::string>());
    double squares = 0;
    for (const auto& [tensor, values] : example["grads"].items()) {
      for (const double value : values) squares += value * value;
    }
    const double norm = example["norm"].get<double>();
    const double scale = example["scale"].get<double>();
    comparison.near(std::sqrt(squares), norm, std::abs(norm) + 1e-300, 1e-12, "norm");
    comparison.near(clip_scale(norm, example["clip_norm"].get<double>(), clip_form(example["form"])), scale,
                    std::abs(scale), 1e-12, "scale");
    report.cases.push_back(comparison.take());
  }
  for (const auto& [name, table] : golden["radam_rectification"].items()) {
    Comparison comparison("radam_rectification " + name);
    const double beta2 = std::stod(name.substr(name.find('=') + 1));
    for (const Json& row : table["rows"]) {
      const RadamRectification found = radam_rectification(beta2, row["t"].get<int64_t>());
      comparison.near(found.sma, row["sma"].get<double>(), 1, 1e-9, "sma");
      comparison.near(found.r, row["r"].is_null() ? 0.0 : row["r"].get<double>(), 1, 1e-9, "r");
    }
    report.cases.push_back(comparison.take());
  }
  return report;
}

GoldenReport check_schedules(const std::string& file) {
  const Json golden = read_json(file);
  GoldenReport report;
  for (const Json& table : golden["tables"]) {
    const auto kind = table["kind"].get<std::string>();
    Comparison comparison(kind + " " + table["config"].dump());
    const std::unique_ptr<Schedule> schedule = make_schedule(kind, table["config"]);
    for (const Json& row : table["table"]) {
      const double expected = row[1].get<double>();
      comparison.near(schedule->learning_rate(row[0].get<int64_t>()), expected, std::abs(expected) + 1e-7, 1e-12,
                      fmt::format("step {}", row[0].get<int64_t>()));
    }
    report.cases.push_back(comparison.take());
  }
  return report;
}

}  // namespace millrace::test

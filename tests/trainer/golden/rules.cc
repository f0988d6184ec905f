#include "tests/trainer/golden/rules.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/trainer/optimizers/radam.h"
#include "millrace/trainer/schedules/schedule.h"
#include "tests/trainer/golden/json_file.h"
#include "tests/trainer/golden/update_rule.h"

namespace millrace::test {
namespace {

using Json = nlohmann::json;

// Half a unit in the last place of 1: what an update's rounding to float32 may add to the distance from a trajectory in
// float64.
constexpr double kRounding = 0x1p-24;

// One update in buckets of the smallest size, so that tensors are torn apart.
void update(const Optimizer& optimizer, const ParameterLayout& layout, const UpdateStep& step,
            const UpdateBuffers& buffers) {
  std::vector<LayerSquares> norms(layout.parameters().size());
  for (int pass = 0; pass < (optimizer.layerwise() ? 2 : 1); ++pass) {
    for (const Bucket& bucket : layout.buckets()) {
      for (const UpdateRange& range : ranges_of(layout, bucket)) {
        LayerSquares& norm = norms[static_cast<size_t>(range.parameter)];
        if (!optimizer.layerwise()) {
          optimizer.update(range, step, buffers);
        } else if (pass == 0) {
          const LayerSquares part = optimizer.direction(range, step, buffers);
          norm.weights += part.weights;
          norm.direction += part.direction;
        } else {
          optimizer.apply(range, step, buffers, norm);
        }
      }
    }
  }
}

// The figures of one case in one type, and how far float32 may be from them after so many updates.
struct CaseFigures {
  std::string group;
  std::string label;
  const Json& expected;
  double limit_per_update;

  double beyond(size_t updates) const { return limit_per_update * static_cast<double>(updates); }
};

void compare_weights(const CaseFigures& figures, const ParameterLayout& layout, const float* weights, size_t updates,
                     GoldenReport& report) {
  for (const Parameter& parameter : layout.parameters()) {
    const auto values = figures.expected.at("trajectory").at(parameter.name).at(updates - 1).get<std::vector<double>>();
    double largest = 1;
    for (const double value : values) largest = std::max(largest, std::abs(value));
    report.compare(fmt::format("{} {} after update {}", figures.label, parameter.name, updates),
                   weights + parameter.offset, values, 0, (4e-7 + figures.beyond(updates)) * largest);
  }
}

void compare_slots(const CaseFigures& figures, const ParameterLayout& layout,
                   std::span<const std::string_view> slot_names, std::span<float* const> slots, size_t updates,
                   GoldenReport& report) {
  const Json& expected = figures.expected.at("final_slots");
  for (const Parameter& parameter : layout.parameters()) {
    for (size_t slot = 0; slot < slots.size(); ++slot) {
      const std::string name = parameter.name + "." + std::string(slot_names[slot]);
      if (!expected.contains(name)) {
        report.expect(figures.label + " slot " + name, false, "not in the file");
        continue;
      }
      report.compare(figures.label + " slot " + name, slots[slot] + parameter.offset,
                     expected.at(name).get<std::vector<double>>(), 1e-6 + figures.beyond(updates), 1e-8);
    }
  }
}

void check_case(const Json& example, const Json& problem, std::span<const CaseFigures> figures, GoldenReport& report) {
  ParameterLayout layout;
  for (const auto& [tensor, values] : problem.at("params").items()) {
    layout.add(tensor, {static_cast<int64_t>(values.size())});
  }
  layout.finish(64);
  const UpdateRule rule = read_update_rule(example.at("rule"), example.at("config"), layout);
  const Optimizer& optimizer = *rule.optimizer;
  FlatBuffer weights(layout.size());
  FlatBuffer gradients(layout.size());
  std::vector<FlatBuffer> slots;
  std::vector<float*> slot_data;
  for (size_t slot = 0; slot < optimizer.slot_names().size(); ++slot) {
    slots.emplace_back(layout.size());
    slot_data.push_back(slots.back().data());
  }
  for (const Parameter& parameter : layout.parameters()) {
    const auto values = problem.at("params").at(parameter.name).get<std::vector<float>>();
    std::copy(values.begin(), values.end(), weights.data() + parameter.offset);
  }
  const size_t steps = figures[0].expected.at("trajectory").begin()->size();
  for (size_t k = 0; k < steps; ++k) {
    double squares = 0;
    for (const Parameter& parameter : layout.parameters()) {
      const auto values = problem.at("grads").at(parameter.name).at(k).get<std::vector<float>>();
      // Four times too large, which the scale puts right.
      std::ranges::transform(values, gradients.data() + parameter.offset, [](float value) { return 4 * value; });
      for (float value : values) squares += static_cast<double>(value) * value;
    }
    double scale = 0.25;
    if (rule.clipping) scale *= clip_scale(std::sqrt(squares), rule.clipping->norm, rule.clipping->form);
    const UpdateStep step{static_cast<int64_t>(k) + 1, rule.learning_rate, static_cast<float>(scale)};
    update(optimizer, layout, step, {weights.data(), gradients.data(), slot_data});
    for (const CaseFigures& type : figures) {
      report.begin_group(type.group);
      compare_weights(type, layout, weights.data(), k + 1, report);
    }
  }
  for (const CaseFigures& type : figures) {
    report.begin_group(type.group);
    compare_slots(type, layout, optimizer.slot_names(), slot_data, steps, report);
  }
}

void check_clipping(const Json& examples, GoldenReport& report) {
  for (const Json& example : examples) {
    const std::string label = fmt::format("clip_by_global_norm {} {}", example.at("name").get<std::string>(),
                                          example.at("form").get<std::string>());
    double squares = 0;
    for (const Json& values : example.at("grads")) {
      for (const auto value : values.get<std::vector<double>>()) squares += value * value;
    }
    report.compare(label + " norm", {std::sqrt(squares)}, {example.at("norm").get<double>()}, 1e-12, 0);
    const double scale = clip_scale(std::sqrt(squares), example.at("clip_norm"), clip_form(example.at("form")));
    report.compare(label + " scale", {scale}, {example.at("scale").get<double>()}, 1e-12, 0);
    for (const auto& [tensor, values] : example.at("grads").items()) {
      auto clipped = values.get<std::vector<double>>();
      for (double& value : clipped) value *= scale;
      report.compare(label + " clipped " + tensor, clipped, example.at("clipped").at(tensor).get<std::vector<double>>(),
                     1e-12, 0);
    }
  }
}

void check_rectification(const std::string& name, double beta2, const Json& rows, GoldenReport& report) {
  for (const Json& row : rows) {
    const auto t = row.at("t").get<int64_t>();
    const RadamRectification found = radam_rectification(beta2, t);
    report.compare(fmt::format("radam {} update {}", name, t), {found.sma, found.r},
                   {row.at("sma").get<double>(), row.at("r").is_null() ? 0.0 : row.at("r").get<double>()}, 0, 1e-9);
  }
}

std::unique_ptr<Schedule> schedule_of(const std::string& kind, const Json& c) {
  const auto rate = [&](const char* name) { return c.at(name).get<double>(); };
  const auto steps = [&](const char* name) { return c.at(name).get<int64_t>(); };
  if (kind == "hf_linear_warmup_decay") {
    return linear_warmup_decay({rate("lr"), steps("W"), steps("N"), rate("end_lr")});
  }
  if (kind == "models_repo_warmup_decay") {
    return models_repo_warmup_decay({rate("lr"), steps("W"), steps("N"), rate("end_lr"), rate("power")});
  }
  if (kind == "cosine_warmup") {
    return cosine_warmup({rate("init"), rate("max"), steps("W"), steps("D"), rate("alpha")});
  }
  if (kind == "milestones") {
    return milestones(rate("lr"), c.at("milestones").get<std::vector<int64_t>>(), rate("factor"),
                      c.at("at_milestone") == "new value" ? AtMilestone::kNewValue : AtMilestone::kOldValue);
  }
  throw std::runtime_error("unknown kind " + kind);
}

}  // namespace

void check_golden_optimizers(const std::string& path, GoldenReport& report) {
  report.begin_group("optimizers");
  report.guard("optimizers", [&] {
    const Json golden = read_json(path);
    report.guard("optimizers cases", [&] {
      for (const auto& [name, example] : golden.at("cases").items()) {
        for (const auto& [problem_name, problem] : golden.at("problems").items()) {
          const std::string label = fmt::format("optimizers {} {}", name, problem_name);
          report.guard(label, [&, &key = problem_name, &json = example, &posed = problem] {
            const CaseFigures figures[] = {
                {"optimizers beside float32", label + ".float32", json.at(key + ".float32"), 0},
                {"optimizers beside float64", label + ".float64", json.at(key + ".float64"), kRounding}};
            check_case(json, posed, figures, report);
          });
        }
      }
    });
    report.begin_group("clipping by global norm");
    report.guard("clip_by_global_norm", [&] { check_clipping(golden.at("clip_by_global_norm"), report); });
    report.begin_group("RAdam's rectification");
    report.guard("radam_rectification", [&] {
      for (const auto& [name, table] : golden.at("radam_rectification").items()) {
        const double beta2 = std::stod(name.substr(name.find('=') + 1));
        const Json& rows = table.at("rows");
        report.guard("radam " + name, [&, &label = name] { check_rectification(label, beta2, rows, report); });
      }
    });
  });
}

void check_golden_schedules(const std::string& path, GoldenReport& report) {
  report.begin_group("schedules");
  report.guard("schedules", [&] {
    const Json golden = read_json(path);
    for (const Json& table : golden.at("tables")) {
      const std::string label =
          fmt::format("schedules {} {}", table.at("kind").get<std::string>(), table.at("config").dump());
      report.guard(label, [&] {
        const std::unique_ptr<Schedule> schedule = schedule_of(table.at("kind"), table.at("config"));
        for (const Json& row : table.at("table")) {
          const auto step = row.at(0).get<int64_t>();
          report.compare(fmt::format("{} at step {}", label, step), {schedule->learning_rate(step)},
                         {row.at(1).get<double>()}, 1e-12, 1e-19);
        }
      });
    }
  });
}

}  // namespace millrace::test

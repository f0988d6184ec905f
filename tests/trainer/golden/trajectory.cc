#include "tests/trainer/golden/trajectory.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include <fmt/format.h>

#include "millrace/formats/safetensors/reader.h"
#include "millrace/trainer/step/step_graph.h"
#include "tests/trainer/golden/update_rule.h"

namespace millrace::test {
namespace {

using Json = nlohmann::json;

class Silent final : public GradientListener {
 public:
  void gradient_final(int) override {}
};

void check_not_decayed(const std::string& name, const Json& run, const ParameterLayout& layout, GoldenReport& report) {
  if (!run.contains("not_decayed")) return;
  const std::vector<double> decays = weight_decays(layout, 1, run.at("config").value("exclude_regex", ""));
  std::set<std::string> found;
  for (size_t id = 0; id < decays.size(); ++id) {
    if (decays[id] == 0) found.insert(layout.parameters()[id].name);
  }
  const bool same = found == run.at("not_decayed").get<std::set<std::string>>();
  report.expect(name + " names without decay", same, "other names");
}

void check_run(const std::string& name, const std::string& run_name, const Json& run, int64_t steps, const Model& model,
               std::span<const float> weights, const BatchView& batch,
               const std::function<bool(const std::string&)>& is_noise, GoldenReport& report) {
  const ParameterLayout& layout = model.layout();
  const UpdateRule rule = read_update_rule(rule_of_run(run_name, run), run.at("config"), layout);
  check_not_decayed(name, run, layout, report);
  TrainedState state(layout, *rule.optimizer);
  std::copy(weights.begin(), weights.end(), state.weights.data());
  StepGraph graph(model, *rule.optimizer, state, {.replicas = 8, .threads = 2, .clipping = rule.clipping});
  std::vector<double> losses;
  for (int64_t step = 0; step < steps; ++step) {
    losses.push_back(graph.train(batch, {step, step, step + 1}, rule.learning_rate).loss);
  }
  const StepResult last = graph.evaluate(batch);
  losses.push_back(last.sum_loss / last.weight);
  report.compare(name + " losses", losses, run.at("losses").get<std::vector<double>>(), 0, 1e-5);
  if (run.contains("losses_float64")) {
    report.compare(name + " losses_float64", losses, run.at("losses_float64").get<std::vector<double>>(), 0, 1e-5);
  }
  const Json& finals = run.at("final");
  report.expect(name + " final", finals.is_object() && !finals.empty(), "nothing to compare");
  for (const auto& entry : finals.items()) {
    const std::string& parameter_name = entry.key();
    const Json& expected = entry.value();
    const auto id = layout.find(parameter_name);
    if (!id) {
      report.expect(name + " " + parameter_name, false, "the model has no such parameter");
      continue;
    }
    if (rule.adaptive && is_noise(parameter_name)) continue;
    const Parameter& parameter = layout.parameters()[static_cast<size_t>(*id)];
    double sum = 0;
    double squares = 0;
    for (int64_t i = 0; i < parameter.size; ++i) {
      const double value = state.weights.data()[parameter.offset + i];
      sum += value;
      squares += value * value;
    }
    for (const char* type : {"", "_float64"}) {
      const auto compare = [&](const char* figure, double value, double relative, double absolute) {
        const std::string key = std::string(figure) + type;
        if (*type != 0 && !expected.contains(key)) return;
        report.compare(fmt::format("{} {} {}", name, parameter_name, key), {value}, {expected.at(key).get<double>()},
                       relative, absolute);
      };
      compare("l2", std::sqrt(squares), 1e-5, 0);
      compare("sum", sum, 0, 5e-5);
    }
  }
}

}  // namespace

void check_golden_gradients(const std::string& name, const std::string& path, const Model& model,
                            std::span<const float> weights, const BatchView& batch, double loss_sum, double num_labels,
                            GoldenReport& report) {
  report.begin_group(name + " gradients");
  const SafetensorsFile expected(path);
  const std::unique_ptr<Workspace> workspace = model.make_workspace();
  FlatBuffer gradients(model.layout().size());
  Silent listener;
  ReplicaContext context{.gradients = gradients.span(), .listener = &listener, .workspace = workspace.get()};
  const StepResult result = model.train_step(batch, weights.data(), context);
  report.compare(name + " loss_sum", {result.sum_loss}, {loss_sum}, 1e-5, 1e-6);
  report.compare(name + " num_labels", {result.weight}, {num_labels}, 0, 0);
  report.expect(
      name + " gradients", expected.tensors().size() == model.layout().parameters().size(),
      fmt::format("{} in the file, {} in the model", expected.tensors().size(), model.layout().parameters().size()));
  for (const StoredTensor& tensor : expected.tensors()) {
    const std::string label = name + " gradient of " + tensor.name;
    const auto id = model.layout().find(tensor.name);
    if (!id) {
      report.expect(label, false, "the model has no such parameter");
      continue;
    }
    const Parameter& parameter = model.layout().parameters()[static_cast<size_t>(*id)];
    std::vector<double> found(gradients.data() + parameter.offset,
                              gradients.data() + parameter.offset + parameter.size);
    for (double& value : found) value /= num_labels;
    const std::vector<float> values = expected.values<float>(tensor.name);
    report.compare(label, found, {values.begin(), values.end()}, 1e-4, 1e-7);
  }
}

void check_golden_runs(const std::string& name, const Json& trajectory, const Model& model,
                       std::span<const float> weights, const BatchView& batch,
                       const std::function<bool(const std::string&)>& is_noise, GoldenReport& report) {
  for (const auto& [run_name, run] : trajectory.at("runs").items()) {
    const std::string label = name + " " + run_name;
    report.begin_group(name + " training with " + run_name);
    report.guard(label, [&, &called = run_name, &run_json = run] {
      check_run(label, called, run_json, trajectory.at("steps").get<int64_t>(), model, weights, batch, is_noise,
                report);
    });
  }
}

}  // namespace millrace::test

// Against the trajectories of torch.optim, Keras and the published code: 20 updates of a scalar and of five tensors, in
// every rule.
#include <cmath>
#include <fstream>
#include <memory>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "formats/error.h"
#include "trainer/optimizers/adam.h"
#include "trainer/optimizers/lamb.h"
#include "trainer/optimizers/radam.h"
#include "trainer/optimizers/sgd.h"

namespace millrace {
namespace {

using Json = nlohmann::json;

const Json& golden() {
  static const Json json = Json::parse(std::ifstream(MILLRACE_TEST_DATA "/trainer/optimizers.json"));
  return json;
}

std::unique_ptr<Optimizer> make(const std::string& rule, const Json& config, const ParameterLayout& layout) {
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
  if (rule == "adamw") options = adamw(number("weight_decay"), exclude);
  if (rule == "adam_weight_decay") options = adam_weight_decay(number("weight_decay"), exclude);
  if (rule == "adam_epsilon_hat") options.epsilon_form = AdamEpsilon::kHat;
  options.beta1 = number("beta1");
  options.beta2 = number("beta2");
  options.epsilon = number("eps");
  return std::make_unique<Adam>(layout, options);
}

// Runs a case in buckets of the smallest size, so that tensors are torn apart, with gradients four times too large that
// the scale puts right.
void run_case(const std::string& name, const std::string& problem_name) {
  SCOPED_TRACE(name + " " + problem_name);
  const Json& example = golden()["cases"][name];
  const Json& problem = golden()["problems"][problem_name];
  ParameterLayout layout;
  for (const auto& [tensor, values] : problem["params"].items()) {
    layout.add(tensor, {static_cast<int64_t>(values.size())});
  }
  layout.finish(64);
  const std::unique_ptr<Optimizer> optimizer = make(example["rule"], example["config"], layout);
  FlatBuffer weights(layout.size());
  FlatBuffer gradients(layout.size());
  std::vector<FlatBuffer> slots;
  std::vector<float*> slot_data;
  for (size_t slot = 0; slot < optimizer->slot_names().size(); ++slot) {
    slots.emplace_back(layout.size());
    slot_data.push_back(slots.back().data());
  }
  const UpdateBuffers buffers{weights.data(), gradients.data(), slot_data};
  for (const Parameter& parameter : layout.parameters()) {
    const auto values = problem["params"][parameter.name].get<std::vector<float>>();
    std::copy(values.begin(), values.end(), weights.data() + parameter.offset);
  }
  for (int64_t k = 0; k < golden()["steps"].get<int64_t>(); ++k) {
    double squares = 0;
    for (const Parameter& parameter : layout.parameters()) {
      const auto values = problem["grads"][parameter.name][static_cast<size_t>(k)].get<std::vector<float>>();
      for (size_t i = 0; i < values.size(); ++i) {
        gradients.data()[parameter.offset + static_cast<int64_t>(i)] = values[i] * 4;
        squares += static_cast<double>(values[i]) * values[i];
      }
    }
    double scale = 0.25;
    if (example["config"].contains("clip_norm")) {
      scale *= clip_scale(std::sqrt(squares), example["config"]["clip_norm"].get<double>(),
                          example["config"]["clip_form"] == "tf" ? ClipForm::kTf : ClipForm::kTorch);
    }
    const UpdateStep step{k + 1, example["config"]["lr"].get<double>(), static_cast<float>(scale)};
    std::vector<LayerSquares> norms(layout.parameters().size());
    for (int pass = 0; pass < 2; ++pass) {
      for (const Bucket& bucket : layout.buckets()) {
        for (const UpdateRange& range : ranges_of(layout, bucket)) {
          LayerSquares& norm = norms[static_cast<size_t>(range.parameter)];
          if (!optimizer->layerwise()) {
            if (pass == 0) optimizer->update(range, step, buffers);
          } else if (pass == 0) {
            const LayerSquares part = optimizer->direction(range, step, buffers);
            norm.weights += part.weights;
            norm.direction += part.direction;
          } else {
            optimizer->apply(range, step, buffers, norm);
          }
        }
      }
    }
    for (const Parameter& parameter : layout.parameters()) {
      const auto expected = example[problem_name + ".float32"]["trajectory"][parameter.name][static_cast<size_t>(k)]
                                .get<std::vector<double>>();
      for (size_t i = 0; i < expected.size(); ++i) {
        // Three units in the last place of the largest weight.
        ASSERT_NEAR(weights.data()[parameter.offset + static_cast<int64_t>(i)], expected[i], 4e-7)
            << parameter.name << "[" << i << "] after update " << k + 1;
      }
    }
  }
  const Json& final_slots = example[problem_name + ".float32"]["final_slots"];
  ASSERT_EQ(final_slots.size(), layout.parameters().size() * slots.size());
  for (const Parameter& parameter : layout.parameters()) {
    for (size_t slot = 0; slot < slots.size(); ++slot) {
      const auto expected =
          final_slots[parameter.name + "." + std::string(optimizer->slot_names()[slot])].get<std::vector<double>>();
      for (size_t i = 0; i < expected.size(); ++i) {
        const double found = slots[slot].data()[parameter.offset + static_cast<int64_t>(i)];
        ASSERT_NEAR(found, expected[i], 1e-8 + 1e-6 * std::abs(expected[i])) << parameter.name << " slot " << slot;
      }
    }
  }
}

class OptimizerTrajectory : public testing::TestWithParam<std::string> {};

TEST_P(OptimizerTrajectory, MatchesTheOriginalImplementation) {
  run_case(GetParam(), "scalar");
  run_case(GetParam(), "vector");
}

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& [name, unused] : golden()["cases"].items()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Golden, OptimizerTrajectory, testing::ValuesIn(case_names()), [](const auto& test) {
  std::string name = test.param;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
});

TEST(ClipScale, MatchesBothForms) {
  for (const Json& example : golden()["clip_by_global_norm"]) {
    SCOPED_TRACE(example.dump());
    double squares = 0;
    for (const auto& [tensor, values] : example["grads"].items()) {
      for (double value : values) squares += value * value;
    }
    EXPECT_NEAR(std::sqrt(squares), example["norm"].get<double>(), 1e-12 * example["norm"].get<double>());
    const double expected = example["scale"].get<double>();
    EXPECT_NEAR(clip_scale(example["norm"].get<double>(), example["clip_norm"].get<double>(),
                           example["form"] == "tf" ? ClipForm::kTf : ClipForm::kTorch),
                expected, 1e-15 * expected);
  }
}

TEST(Radam, RectifiesFromTheSixthUpdateOn) {
  for (const double beta2 : {0.999, 0.99}) {
    for (const Json& row : golden()["radam_rectification"][beta2 == 0.99 ? "beta2=0.99" : "beta2=0.999"]["rows"]) {
      const RadamRectification found = radam_rectification(beta2, row["t"].get<int64_t>());
      EXPECT_NEAR(found.sma, row["sma"].get<double>(), 1e-9);
      EXPECT_NEAR(found.r, row["r"].is_null() ? 0.0 : row["r"].get<double>(), 1e-9);
    }
  }
}

TEST(Optimizers, RefuseOptionsOutOfRangeAndBadPatterns) {
  ParameterLayout layout;
  layout.add("w", {1});
  layout.finish();
  EXPECT_THROW(Sgd({.momentum = 1}), ErrorException);
  EXPECT_THROW(Adam(layout, {.beta1 = 1}), ErrorException);
  EXPECT_THROW(Adam(layout, {.epsilon = 0}), ErrorException);
  EXPECT_THROW(Adam(layout, adamw(-0.1)), ErrorException);
  EXPECT_THROW(Adam(layout, adamw(0.1, "(")), ErrorException);
  EXPECT_THROW(Radam(layout, {.beta2 = 2}), ErrorException);
  EXPECT_THROW(Lamb(layout, {.weight_decay = std::nan("")}), ErrorException);
}

}  // namespace
}  // namespace millrace

#pragma once

#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "millrace/trainer/optimizers/optimizer.h"
#include "millrace/trainer/step/step_graph.h"

namespace millrace::test {

/// How weights are changed in a case of `optimizers.json` or a run of `trajectory.json`.
struct UpdateRule {
  std::unique_ptr<Optimizer> optimizer;
  double learning_rate = 0;
  std::optional<Clipping> clipping;
  bool adaptive = false;  ///< divides by the gradient's size, and so makes updates of its rounding errors
};

/// The rule of that name (`sgd`, `momentum`, `adam`, `adam_epsilon_hat`, `adamw`, `adam_weight_decay`, `radam`, `lamb`)
/// with the fields of `config`: `lr`, `clip_norm` with `clip_form` ("tf", the default, or "torch"), and `momentum` or
/// `beta1`, `beta2`, `eps`, and where the rule decays weights `weight_decay` and `exclude_regex`; null is as good as
/// none. Throws std::runtime_error for another rule, and naming a field that is missing, of another type or value, or
/// that the rule has no use for.
UpdateRule read_update_rule(const std::string& rule, const nlohmann::json& config, const ParameterLayout& layout);

/// The rule of a run: its field `rule`, or else the longest name of a rule that the run's name is or begins with before
/// a `_` (`adam_epsilon_hat_keras`: `adam_epsilon_hat`). Throws std::runtime_error when there is none.
std::string rule_of_run(const std::string& name, const nlohmann::json& run);

/// Throws std::runtime_error unless it is "tf" or "torch".
ClipForm clip_form(const std::string& form);

}  // namespace millrace::test

#include "tests/trainer/golden/update_rule.h"

#include <algorithm>
#include <set>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/trainer/name_pattern.h"
#include "millrace/trainer/optimizers/adam.h"
#include "millrace/trainer/optimizers/lamb.h"
#include "millrace/trainer/optimizers/radam.h"
#include "millrace/trainer/optimizers/sgd.h"

namespace millrace::test {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kRules[] = {"sgd",   "momentum",          "adam",  "adam_epsilon_hat",
                                       "adamw", "adam_weight_decay", "radam", "lamb"};

// The fields of a config, of which none may be left unread.
class ConfigFields {
 public:
  explicit ConfigFields(const Json& config) : config_(config) {}

  std::optional<double> maybe_number(const char* name) {
    const Json* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number()) throw std::runtime_error(fmt::format("config: {} is {}, no number", name, value->dump()));
    return value->get<double>();
  }
  double number(const char* name) {
    const std::optional<double> value = maybe_number(name);
    if (!value) throw std::runtime_error(fmt::format("config: there is no {}", name));
    return *value;
  }
  std::string text(const char* name, const char* otherwise) {
    const Json* value = find(name);
    if (value == nullptr) return otherwise;
    if (!value->is_string()) throw std::runtime_error(fmt::format("config: {} is {}, no text", name, value->dump()));
    return value->get<std::string>();
  }
  void refuse_unread(const std::string& rule) const {
    for (const auto& [name, value] : config_.items()) {
      if (read_.contains(name)) continue;
      throw std::runtime_error(fmt::format("config: the rule {} has no use for {} ({})", rule, name, value.dump()));
    }
  }

 private:
  const Json* find(const char* name) {
    read_.insert(name);
    const auto field = config_.find(name);
    return field == config_.end() || field->is_null() ? nullptr : &*field;
  }

  const Json& config_;
  std::set<std::string> read_;
};

// What the rules with two moments have in common.
template <typename Options>
Options with_moments(Options options, ConfigFields& fields) {
  options.beta1 = fields.number("beta1");
  options.beta2 = fields.number("beta2");
  options.epsilon = fields.number("eps");
  return options;
}

template <typename Options>
Options with_decay(Options options, ConfigFields& fields, const ParameterLayout& layout) {
  options.weight_decay = fields.maybe_number("weight_decay").value_or(0);
  options.exclude_from_decay = fields.text("exclude_regex", "");
  // One config serves several problems; some have no parameter of those that it leaves out.
  const NamePattern pattern("exclude_regex", options.exclude_from_decay);
  if (std::ranges::none_of(layout.parameters(),
                           [&](const Parameter& parameter) { return pattern.matches(parameter); })) {
    options.exclude_from_decay.clear();
  }
  return with_moments(std::move(options), fields);
}

std::unique_ptr<Optimizer> optimizer_of(const std::string& rule, ConfigFields& fields, const ParameterLayout& layout) {
  if (rule == "sgd") {
    return std::make_unique<Sgd>(SgdOptions{.momentum = fields.maybe_number("momentum").value_or(0)});
  }
  if (rule == "momentum") return std::make_unique<Sgd>(SgdOptions{.momentum = fields.number("momentum")});
  if (rule == "adam") return std::make_unique<Adam>(layout, with_moments(AdamOptions{}, fields));
  if (rule == "adam_epsilon_hat") {
    return std::make_unique<Adam>(layout, with_moments(AdamOptions{.epsilon_form = AdamEpsilon::kHat}, fields));
  }
  if (rule == "adamw") return std::make_unique<Adam>(layout, with_decay(adamw(), fields, layout));
  if (rule == "adam_weight_decay")
    return std::make_unique<Adam>(layout, with_decay(adam_weight_decay(0), fields, layout));
  if (rule == "radam") return std::make_unique<Radam>(layout, with_decay(RadamOptions{}, fields, layout));
  if (rule == "lamb") return std::make_unique<Lamb>(layout, with_decay(LambOptions{}, fields, layout));
  throw std::runtime_error("unknown rule " + rule);
}

std::optional<Clipping> clipping_of(ConfigFields& fields) {
  const std::string form = fields.text("clip_form", "tf");
  const std::optional<double> norm = fields.maybe_number("clip_norm");
  if (!norm) return std::nullopt;
  if (!(*norm > 0)) throw std::runtime_error(fmt::format("config: clip_norm is {}; more than 0 is needed", *norm));
  return Clipping{.norm = *norm, .form = clip_form(form)};
}

}  // namespace

UpdateRule read_update_rule(const std::string& rule, const Json& config, const ParameterLayout& layout) {
  ConfigFields fields(config);
  UpdateRule result;
  result.optimizer = optimizer_of(rule, fields, layout);
  result.learning_rate = fields.number("lr");
  result.clipping = clipping_of(fields);
  result.adaptive = rule != "sgd" && rule != "momentum";
  fields.refuse_unread(rule);
  return result;
}

std::string rule_of_run(const std::string& name, const Json& run) {
  if (run.contains("rule")) return run.at("rule").get<std::string>();
  std::string_view longest;
  for (const std::string_view rule : kRules) {
    const bool begins = name == rule || name.starts_with(std::string(rule) + "_");
    if (begins && rule.size() > longest.size()) longest = rule;
  }
  if (!longest.empty()) return std::string(longest);
  throw std::runtime_error(
      fmt::format("the name of the run says no rule, which are {}, and it has no field rule", fmt::join(kRules, ", ")));
}

ClipForm clip_form(const std::string& form) {
  if (form == "tf") return ClipForm::kTf;
  if (form == "torch") return ClipForm::kTorch;
  throw std::runtime_error(fmt::format("the form of clipping is '{}'; there are tf and torch", form));
}

}  // namespace millrace::test

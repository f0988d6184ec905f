#include "millrace/trainer/callback.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {

std::string value_text(double value) {
  constexpr double kSmall = 0.01;
  if (std::isnan(value)) return "-";
  return value != 0 && std::abs(value) < kSmall ? fmt::format("{:.4g}", value) : fmt::format("{:.4f}", value);
}

std::string TrainingReport::phases_text() const {
  const double all = std::max(1e-12, seconds + callback_seconds);
  const auto share = [all](double part) { return 100 * part / all; };
  return fmt::format(
      "{:.3g} s a step: waiting for input {:.1f}%, forward {:.1f}%, backward {:.1f}%, reduce {:.1f}%, optimizer "
      "{:.1f}%, callbacks {:.1f}%",
      all / static_cast<double>(std::max<int64_t>(1, steps)), share(seconds * input_wait_share), share(phases.forward),
      share(phases.backward), share(phases.reduce), share(phases.optimizer), share(callback_seconds));
}

double EvaluationReport::value(const std::string& name) const {
  if (name == "loss") return loss;
  const auto found = std::ranges::find(metrics, name, &MetricValue::name);
  if (found != metrics.end()) return found->value;
  std::string there = "loss";
  for (const MetricValue& metric : metrics) there += ", " + metric.name;
  throw ErrorException(ErrorCode::kInvalidArgument,
                       fmt::format("an evaluation has no metric '{}'; there are: {}", name, there));
}

}  // namespace millrace

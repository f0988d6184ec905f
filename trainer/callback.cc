#include "trainer/callback.h"

#include <algorithm>

#include <fmt/format.h>

#include "formats/error.h"

namespace millrace {

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

#include "millrace/trainer/metrics/metric_values.h"

#include <limits>
#include <set>
#include <string>

#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {

double reported_loss(const StepResult& total, size_t loss) {
  const LossSum sum = total.loss(static_cast<int>(loss));
  return sum.weight == 0 ? std::numeric_limits<double>::quiet_NaN() : sum.sum / sum.weight;
}

void append_metrics(const StepResult& total, std::vector<MetricValue>& values) {
  for (size_t loss = 1; loss <= total.more_losses.size(); ++loss) {
    values.push_back({.name = fmt::format("loss_{}", loss), .value = reported_loss(total, loss)});
  }
  for (const MetricSum& metric : total.metrics) values.push_back({.name = metric.name, .value = metric.value()});
}

std::vector<MetricValue> values_of(const std::vector<std::unique_ptr<Metric>>& metrics) {
  std::vector<MetricValue> values;
  values.reserve(metrics.size());
  for (const auto& metric : metrics) values.push_back({.name = metric->name(), .value = metric->value()});
  return values;
}

void check_names(const std::vector<MetricValue>& values) {
  std::set<std::string> names = {"loss"};
  for (const MetricValue& metric : values) {
    if (names.insert(metric.name).second) continue;
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("an evaluation has two numbers with the name '{}'", metric.name));
  }
}

}  // namespace millrace

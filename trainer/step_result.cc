#include "trainer/step_result.h"

#include <algorithm>

#include <fmt/format.h>

#include "formats/error.h"

namespace millrace {

LossSum StepResult::loss(int index) const {
  if (index == 0) return {.sum = sum_loss, .weight = weight};
  const auto other = static_cast<size_t>(index) - 1;
  return other < more_losses.size() ? more_losses[other] : LossSum{};
}

void StepResult::add(const StepResult& other) {
  sum_loss += other.sum_loss;
  weight += other.weight;
  more_losses.resize(std::max(more_losses.size(), other.more_losses.size()));
  for (size_t i = 0; i < other.more_losses.size(); ++i) {
    more_losses[i].sum += other.more_losses[i].sum;
    more_losses[i].weight += other.more_losses[i].weight;
  }
  if (metrics.empty()) metrics.resize(other.metrics.size());
  for (size_t i = 0; i < other.metrics.size(); ++i) {
    MetricSum& metric = metrics.at(i);
    if (metric.name.empty()) metric.name = other.metrics[i].name;
    if (metric.name != other.metrics[i].name) {
      throw ErrorException(
          ErrorCode::kInvalidArgument,
          fmt::format("metric {} is '{}' in one replica and '{}' in another", i, metric.name, other.metrics[i].name));
    }
    metric.sum += other.metrics[i].sum;
    metric.weight += other.metrics[i].weight;
  }
}

}  // namespace millrace

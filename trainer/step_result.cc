#include "millrace/trainer/step_result.h"

#include <algorithm>

#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

std::string names_of(const std::vector<MetricSum>& metrics) {
  std::string names;
  for (const MetricSum& metric : metrics) names += (names.empty() ? "" : ", ") + metric.name;
  return names;
}

}  // namespace

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
  if (metrics.empty()) {
    metrics = other.metrics;
    return;
  }
  if (other.metrics.empty()) return;
  if (!std::ranges::equal(metrics, other.metrics, {}, &MetricSum::name, &MetricSum::name)) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("the metrics are [{}] in one replica and [{}] in another", names_of(metrics),
                                     names_of(other.metrics)));
  }
  for (size_t i = 0; i < metrics.size(); ++i) {
    metrics[i].sum += other.metrics[i].sum;
    metrics[i].weight += other.metrics[i].weight;
  }
}

}  // namespace millrace

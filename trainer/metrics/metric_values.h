#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "millrace/trainer/metrics/metric.h"
#include "millrace/trainer/step_result.h"

namespace millrace {

/// A loss over everything that was added up, as it is reported; NaN when nothing had a weight. `loss`: from 0.
[[nodiscard]] double reported_loss(const StepResult& total, size_t loss);
/// Appends the losses after the first, as `loss_1`, ..., and what the model measures beside them.
void append_metrics(const StepResult& total, std::vector<MetricValue>& values);

/// What each metric says now.
[[nodiscard]] std::vector<MetricValue> values_of(const std::vector<std::unique_ptr<Metric>>& metrics);

/// In logs, and where a metric is asked for, a name stands for one number: throws `kInvalidArgument` for one that is
/// there twice, or is `loss`.
void check_names(const std::vector<MetricValue>& values);

}  // namespace millrace

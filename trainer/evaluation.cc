#include "millrace/trainer/evaluation.h"

#include <chrono>
#include <utility>

#include "millrace/formats/error.h"
#include "millrace/trainer/metrics/metric_values.h"

namespace millrace {

void need_end(const BatchSource& source) {
  if (!source.endless()) return;
  throw ErrorException(ErrorCode::kInvalidArgument,
                       "the rows to evaluate on have no end: leave `repeat` out of their dataset");
}

std::optional<EvaluationReport> evaluate(StepGraph& graph, BatchSource& source,
                                         const std::vector<std::unique_ptr<Metric>>& metrics,
                                         const std::function<bool()>& stop) {
  need_end(source);
  EvaluationReport report;
  StepResult total;
  const auto begin = std::chrono::steady_clock::now();
  while (const std::optional<GlobalBatch> batch = source.next()) {
    if (stop && stop()) return std::nullopt;
    if (metrics.empty()) {
      total.add(graph.evaluate(batch->view));
    } else {
      const Predictions predictions = graph.predict(batch->view);
      for (const auto& metric : metrics) metric->add(batch->view, predictions);
      total.add(predictions.result);
    }
    report.rows += batch->view.rows();
  }
  report.sum_loss = total.sum_loss;
  report.weight = total.weight;
  report.loss = reported_loss(total, 0);
  append_metrics(total, report.metrics);
  for (MetricValue& metric : values_of(metrics)) report.metrics.push_back(std::move(metric));
  check_names(report.metrics);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

}  // namespace millrace

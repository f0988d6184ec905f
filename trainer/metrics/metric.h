#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "millrace/trainer/batch_view.h"
#include "millrace/trainer/predictions.h"

namespace millrace {

/// A number of an evaluation and its name.
struct MetricValue {
  std::string name = {};
  double value = 0;
};

/// A number over all predictions of an evaluation that is no sum over rows (an area under a curve, a rank correlation),
/// or that is easier to take from predictions than inside the model. One object for one evaluation; one thread.
///
///     Spearman spearman({.predictions = "scores", .labels = "target"});
///     spearman.add(batch, predictions);  // batch after batch, in order
///     double correlation = spearman.value();
class Metric {
 public:
  virtual ~Metric() = default;
  virtual std::string name() const = 0;
  /// The rows of one batch. Throws when a feature or predicted column is missing, or when their shapes differ.
  virtual void add(const BatchView& rows, const Predictions& predictions) = 0;
  /// Over all rows so far; NaN where it is not defined (see each metric).
  virtual double value() const = 0;
};

/// Metrics in a list, as `TrainerOptions::metrics` and `Predictor::evaluate` want them:
///
///     options.metrics = [] { return metrics_of(Spearman(), Auc({.predictions = "scores", .labels = "target"})); };
template <typename... Metrics>
std::vector<std::unique_ptr<Metric>> metrics_of(Metrics... metrics) {
  std::vector<std::unique_ptr<Metric>> list;
  (list.push_back(std::make_unique<Metrics>(std::move(metrics))), ...);
  return list;
}

}  // namespace millrace

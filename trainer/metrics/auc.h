#pragma once

#include <span>
#include <vector>

#include "millrace/trainer/metrics/scored_rows.h"

namespace millrace {

/// The area under the ROC curve of scores and labels, as `Auc`. NaN unless both labels are there, and where a score or
/// label is NaN. Throws `kWrongShape` for lists of unlike length.
double auc(std::span<const double> scores, std::span<const double> labels);

/// The area under the ROC curve: how often a row with label 1 has a higher score than one with label 0, ties counting
/// half (Mann and Whitney's U). Exact, not by thresholds. With several columns the mean over those that have both
/// labels; NaN where none has, and where a score or label is NaN. Labels above 0.5 are 1.
class Auc final : public Metric {
 public:
  explicit Auc(MetricColumns columns = {}) : rows_(std::move(columns)) {}
  std::string name() const override { return "auc"; }
  void add(const BatchView& rows, const Predictions& predictions) override { rows_.add(rows, predictions); }
  double value() const override;
  /// `auc` of each column.
  std::vector<double> by_column() const { return rows_.by_column(auc); }

 private:
  ScoredRows rows_;
};

}  // namespace millrace

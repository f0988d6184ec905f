#pragma once

#include "millrace/trainer/metrics/scored_rows.h"

namespace millrace {

/// Spearman's rank correlation of scores and labels: Pearson's of their ranks, where equal values share the mean of
/// theirs. With several columns the mean over those in which neither scores nor labels are all equal; NaN where there
/// is none, and where a score or label is NaN.
class Spearman final : public Metric {
 public:
  explicit Spearman(MetricColumns columns = {}) : rows_(std::move(columns)) {}
  std::string name() const override { return "spearman"; }
  void add(const BatchView& rows, const Predictions& predictions) override { rows_.add(rows, predictions); }
  double value() const override;

 private:
  ScoredRows rows_;
};

}  // namespace millrace

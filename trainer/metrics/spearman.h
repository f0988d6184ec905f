#pragma once

#include <span>
#include <vector>

#include "millrace/trainer/metrics/scored_rows.h"

namespace millrace {

/// Spearman's rank correlation of two lists: Pearson's of their ranks, where equal values share the mean of theirs. NaN
/// where one of them is all equal, has fewer than two values or has a NaN. Throws `kWrongShape` for lists of unlike
/// length.
double spearman(std::span<const double> a, std::span<const double> b);

/// Spearman's rank correlation of scores and labels: Pearson's of their ranks, where equal values share the mean of
/// theirs. With several columns the mean over those in which neither scores nor labels are all equal; NaN where there
/// is none, and where a score or label is NaN.
class Spearman final : public Metric {
 public:
  explicit Spearman(MetricColumns columns = {}) : rows_(std::move(columns)) {}
  std::string name() const override { return "spearman"; }
  void add(const BatchView& rows, const Predictions& predictions) override { rows_.add(rows, predictions); }
  double value() const override;
  /// `spearman` of each column.
  std::vector<double> by_column() const { return rows_.by_column(spearman); }

 private:
  ScoredRows rows_;
};

}  // namespace millrace

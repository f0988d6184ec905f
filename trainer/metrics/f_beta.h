#pragma once

#include <vector>

#include "millrace/trainer/metrics/scored_rows.h"

namespace millrace {

/// How F-beta of several columns (classes) becomes one number.
enum class FBetaAverage {
  kMicro,  ///< hits and misses of all columns are counted together
  kMacro,  ///< the mean over columns
};

struct FBetaOptions {
  MetricColumns columns = {};                   ///< Default: scores and labels
  double beta = 1;                              ///< how much recall weighs against precision, above 0. Default: 1
  double threshold = 0.5;                       ///< scores above it say 1, as labels above 0.5 are. Default: 0.5
  FBetaAverage average = FBetaAverage::kMicro;  ///< Default: kMicro
};

/// `(1 + beta^2) precision recall / (beta^2 precision + recall)`, which is
/// `(1 + beta^2) hits / ((1 + beta^2) hits + beta^2 missed + false alarms)`; 0 where that is 0 / 0; NaN where a
/// score or label is NaN.
class FBeta final : public Metric {
 public:
  /// Throws `kInvalidArgument` unless beta is above 0.
  explicit FBeta(FBetaOptions options = {});
  std::string name() const override;
  void add(const BatchView& rows, const Predictions& predictions) override { rows_.add(rows, predictions); }
  double value() const override;
  /// Of each column by itself; none without rows.
  std::vector<double> by_column() const;

 private:
  FBetaOptions options_;
  ScoredRows rows_;
};

}  // namespace millrace

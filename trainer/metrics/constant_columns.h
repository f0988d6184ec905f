#pragma once

#include "millrace/trainer/metrics/spearman.h"

namespace millrace {

/// How many columns `Spearman` leaves out: those in which all scores or all labels are equal. Beside it, so that a mean
/// over fewer columns is seen.
class ConstantColumns final : public Metric {
 public:
  explicit ConstantColumns(MetricColumns columns = {}) : all_(std::move(columns)) {}
  std::string name() const override { return "constant_columns"; }
  void add(const BatchView& rows, const Predictions& predictions) override { all_.add(rows, predictions); }
  double value() const override;

 private:
  Spearman all_;
};

}  // namespace millrace

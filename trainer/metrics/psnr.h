#pragma once

#include "millrace/trainer/metrics/scored_rows.h"

namespace millrace {

/// Peak signal-to-noise ratio of images in decibels: `10 log10(peak^2 / mse)` of each row, and the mean over rows. A
/// row without any error makes it infinite; NaN without rows.
class Psnr final : public Metric {
 public:
  /// `peak`: the difference of the largest and the least value that a pixel can have: 255, 1, ... Throws
  /// `kInvalidArgument` unless it is above 0.
  Psnr(double peak, MetricColumns columns);
  std::string name() const override { return "psnr"; }
  void add(const BatchView& rows, const Predictions& predictions) override;
  double value() const override;

 private:
  double peak_;
  MetricColumns columns_;
  double sum_ = 0;
  int64_t rows_ = 0;
};

}  // namespace millrace

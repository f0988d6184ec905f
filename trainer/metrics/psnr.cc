#include "millrace/trainer/metrics/psnr.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {

Psnr::Psnr(double peak, MetricColumns columns) : peak_(peak), columns_(std::move(columns)) {
  if (peak > 0 && std::isfinite(peak)) return;
  throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("peak is {}; more than 0 is needed", peak));
}

void Psnr::add(const BatchView& rows, const Predictions& predictions) {
  ScoredRows values(columns_);  // of this batch only: images are large
  values.add(rows, predictions);
  for (int64_t row = 0; row < values.rows(); ++row) {
    double squares = 0;
    for (int64_t i = row * values.columns(); i < (row + 1) * values.columns(); ++i) {
      const double error = values.predictions()[static_cast<size_t>(i)] - values.labels()[static_cast<size_t>(i)];
      squares += error * error;
    }
    const double mean = squares / static_cast<double>(values.columns());
    sum_ += 10 * std::log10(peak_ * peak_ / mean);
    ++rows_;
  }
}

double Psnr::value() const {
  return rows_ == 0 ? std::numeric_limits<double>::quiet_NaN() : sum_ / static_cast<double>(rows_);
}

}  // namespace millrace

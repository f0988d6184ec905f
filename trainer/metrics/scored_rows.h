#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "millrace/trainer/metrics/metric.h"

namespace millrace {

/// Which numbers a metric compares: a predicted column and a feature of the batch, of the same shape, or one value a
/// row where the other has one.
struct MetricColumns {
  std::string predictions = "scores";  ///< Default: scores
  std::string labels = "labels";       ///< Default: labels
};

/// What numbers may be.
enum class MetricValues {
  kAny,  ///< float32, int32 or int64
  kIds,  ///< int32 or int64; floats would be compared as if each were a class
};

/// Predictions and labels of all rows of an evaluation as float64: `[rows, columns]`, row major.
class ScoredRows {
 public:
  explicit ScoredRows(MetricColumns names, MetricValues values = MetricValues::kAny)
      : names_(std::move(names)), values_(values) {}
  /// Throws `kMissingFeature`, and `kWrongShape` for other types, when labels and predictions differ in their number,
  /// or the number of a row's values changes.
  void add(const BatchView& rows, const Predictions& predictions);

  int64_t rows() const { return rows_; }
  /// Values of a row; 1 before the first batch.
  int64_t columns() const { return columns_; }
  const std::vector<double>& predictions() const { return predictions_; }
  const std::vector<double>& labels() const { return labels_; }
  /// Whether a prediction or a label is NaN: then there is no order, and a metric of them is NaN.
  bool has_nan() const;
  /// Column `column` of either, `[rows]`.
  std::vector<double> column(const std::vector<double>& values, int64_t column) const;
  /// `measure` of the predictions and labels of each column; none without rows.
  std::vector<double> by_column(
      const std::function<double(std::span<const double> predictions, std::span<const double> labels)>& measure) const;

 private:
  MetricColumns names_;
  MetricValues values_;
  int64_t rows_ = 0;
  int64_t columns_ = 1;
  std::vector<double> predictions_;
  std::vector<double> labels_;
};

/// The mean of the values that are not NaN, in their order; NaN where all are.
double mean_of_defined(std::span<const double> values);
/// Whether one of them is NaN.
bool any_nan(std::span<const double> values);

}  // namespace millrace

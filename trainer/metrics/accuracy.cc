#include "millrace/trainer/metrics/accuracy.h"

#include <limits>

#include "millrace/trainer/metrics/scored_rows.h"

namespace millrace {

void Accuracy::add(const BatchView& rows, const Predictions& predictions) {
  // Ids are whole numbers far below 2^53: exact as float64.
  ScoredRows values({.predictions = options_.predictions, .labels = options_.labels}, MetricValues::kIds);
  values.add(rows, predictions);
  const auto no_label = static_cast<double>(options_.no_label);
  for (int64_t row = 0; row < values.rows(); ++row) {
    int64_t labels = 0;
    int64_t right = 0;
    for (int64_t i = row * values.columns(); i < (row + 1) * values.columns(); ++i) {
      const double label = values.labels()[static_cast<size_t>(i)];
      if (label == no_label) continue;
      ++labels;
      if (values.predictions()[static_cast<size_t>(i)] == label) ++right;
    }
    if (options_.answer == AnswerIs::kValue) {
      right_ += right;
      answers_ += labels;
    } else if (labels > 0) {
      right_ += right == labels ? 1 : 0;
      ++answers_;
    }
  }
}

double Accuracy::value() const {
  if (answers_ == 0) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(right_) / static_cast<double>(answers_);
}

}  // namespace millrace

#pragma once

#include "millrace/trainer/metrics/metric.h"

namespace millrace {

/// What counts as one answer.
enum class AnswerIs {
  kValue,  ///< each label: the share of labels (tokens, classes) that are right, each with the same weight
  kRow,    ///< each row: right when all its labels are (exact match); rows without a label do not count
};

struct AccuracyOptions {
  std::string predictions = "ids";     ///< int32 or int64, one for each label. Default: ids
  std::string labels = "labels";       ///< int32 or int64. Default: labels
  AnswerIs answer = AnswerIs::kValue;  ///< Default: kValue
  int64_t no_label = -100;             ///< labels of this value count as none. Default: -100
};

/// The share of answers that are right, over all rows; NaN without a label. Top-1 accuracy, where the model predicts
/// the best class.
class Accuracy final : public Metric {
 public:
  explicit Accuracy(AccuracyOptions options = {}) : options_(std::move(options)) {}
  std::string name() const override { return options_.answer == AnswerIs::kValue ? "accuracy" : "row_accuracy"; }
  /// Throws `kMissingFeature`; `kWrongShape` for floats, and where labels and predictions differ in their number.
  void add(const BatchView& rows, const Predictions& predictions) override;
  double value() const override;

 private:
  AccuracyOptions options_;
  int64_t right_ = 0;
  int64_t answers_ = 0;
};

}  // namespace millrace

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "millrace/trainer/metrics/metric.h"

namespace millrace {

struct MacroF1Options {
  std::string predictions = "ids";  ///< int32 or int64, one for each label; below 0: no class. Default: ids
  std::string labels = "labels";    ///< int32 or int64. Default: labels
  int64_t no_label = -100;          ///< labels of this value, and what is predicted there, do not count. Default: -100
};

/// The mean of the F1 of all classes, whose numbers labels and predictions are: each class weighs the same, however few
/// rows it has. F1 of a class is `2 right / (labels of it + predictions of it)`; a class that is neither among the
/// labels nor among the predictions has no part in the mean, as `sklearn.metrics.f1_score(average="macro")`; "no class"
/// has none either, as with sklearn's `labels` of the classes. NaN without a label.
///
///     options.metrics = [] { return metrics_of(MacroF1({.predictions = "class"})); };
///     options.keep_best = KeepBest{.folder = "best", .models = {.metric = "macro_f1", .better = Better::kHigher}};
class MacroF1 final : public Metric {
 public:
  explicit MacroF1(MacroF1Options options = {}) : options_(std::move(options)) {}
  std::string name() const override { return "macro_f1"; }
  /// Throws `kMissingFeature`; `kWrongShape` for floats, and where labels and predictions differ in their number; and
  /// `kInvalidArgument` for a label below 0 that is not `no_label`.
  void add(const BatchView& rows, const Predictions& predictions) override;
  double value() const override;

 private:
  struct Counts {
    int64_t right = 0;
    int64_t either = 0;  // labels of the class and predictions of it
  };

  MacroF1Options options_;
  std::map<double, Counts> classes_;  // by id
};

}  // namespace millrace

#include "millrace/trainer/metrics/macro_f1.h"

#include <limits>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/metrics/scored_rows.h"

namespace millrace {

void MacroF1::add(const BatchView& rows, const Predictions& predictions) {
  // Ids are whole numbers far below 2^53: exact as float64.
  const auto no_label = static_cast<double>(options_.no_label);
  ScoredRows values({.predictions = options_.predictions, .labels = options_.labels}, MetricValues::kIds);
  values.add(rows, predictions);
  for (size_t i = 0; i < values.labels().size(); ++i) {
    const double label = values.labels()[i];
    const double said = values.predictions()[i];
    if (label == no_label) continue;
    if (!(label >= 0)) {
      throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("the label {} is of no class", label));
    }
    ++classes_[label].either;
    if (said >= 0) ++classes_[said].either;
    if (said == label) ++classes_[label].right;
  }
}

double MacroF1::value() const {
  if (classes_.empty()) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  for (const auto& [id, counts] : classes_) {
    sum += 2 * static_cast<double>(counts.right) / static_cast<double>(counts.either);
  }
  return sum / static_cast<double>(classes_.size());
}

}  // namespace millrace

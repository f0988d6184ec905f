#include "millrace/trainer/metrics/auc.h"

#include <limits>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/metrics/ranks.h"

namespace millrace {

double auc(std::span<const double> scores, std::span<const double> labels) {
  if (scores.size() != labels.size()) {
    throw ErrorException(ErrorCode::kWrongShape, fmt::format("an area under the curve of {} scores with {} labels",
                                                             scores.size(), labels.size()));
  }
  if (any_nan(scores) || any_nan(labels)) return std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> ranks = average_ranks(scores);
  double positive = 0;
  double rank_sum = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] <= 0.5) continue;
    positive += 1;
    rank_sum += ranks[i];
  }
  const double negative = static_cast<double>(labels.size()) - positive;
  if (positive == 0 || negative == 0) return std::numeric_limits<double>::quiet_NaN();
  return (rank_sum - positive * (positive + 1) / 2) / (positive * negative);
}

double Auc::value() const {
  if (rows_.has_nan()) return std::numeric_limits<double>::quiet_NaN();
  return mean_of_defined(by_column());
}

}  // namespace millrace

#include "millrace/trainer/metrics/auc.h"

#include <limits>

#include "millrace/trainer/metrics/ranks.h"

namespace millrace {

double Auc::value() const {
  if (rows_.has_nan()) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  int64_t columns = 0;
  for (int64_t column = 0; column < rows_.columns(); ++column) {
    const std::vector<double> ranks = average_ranks(rows_.column(rows_.predictions(), column));
    const std::vector<double> labels = rows_.column(rows_.labels(), column);
    double positive = 0;
    double rank_sum = 0;
    for (size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] <= 0.5) continue;
      positive += 1;
      rank_sum += ranks[i];
    }
    const double negative = static_cast<double>(labels.size()) - positive;
    if (positive == 0 || negative == 0) continue;
    sum += (rank_sum - positive * (positive + 1) / 2) / (positive * negative);
    ++columns;
  }
  return columns == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(columns);
}

}  // namespace millrace

#include "millrace/trainer/metrics/spearman.h"

#include <cmath>
#include <limits>
#include <optional>

#include "millrace/trainer/metrics/ranks.h"

namespace millrace {
namespace {

// Nothing where one of them does not vary. Ranks have the mean (n + 1) / 2.
std::optional<double> correlation_of_ranks(const std::vector<double>& a, const std::vector<double>& b) {
  const double mean = (static_cast<double>(a.size()) + 1) / 2;
  double both = 0;
  double squares_a = 0;
  double squares_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    both += (a[i] - mean) * (b[i] - mean);
    squares_a += (a[i] - mean) * (a[i] - mean);
    squares_b += (b[i] - mean) * (b[i] - mean);
  }
  if (squares_a == 0 || squares_b == 0) return std::nullopt;
  return both / std::sqrt(squares_a * squares_b);
}

}  // namespace

double Spearman::value() const {
  if (rows_.has_nan()) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  int64_t columns = 0;
  for (int64_t column = 0; column < rows_.columns(); ++column) {
    const auto correlation = correlation_of_ranks(average_ranks(rows_.column(rows_.predictions(), column)),
                                                  average_ranks(rows_.column(rows_.labels(), column)));
    if (!correlation) continue;
    sum += *correlation;
    ++columns;
  }
  return columns == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(columns);
}

}  // namespace millrace

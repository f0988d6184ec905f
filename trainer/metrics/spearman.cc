#include "millrace/trainer/metrics/spearman.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/metrics/ranks.h"

namespace millrace {
namespace {

// Ranks have the mean (n + 1) / 2.
double correlation_of_ranks(const std::vector<double>& a, const std::vector<double>& b) {
  const double mean = (static_cast<double>(a.size()) + 1) / 2;
  double both = 0;
  double squares_a = 0;
  double squares_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    both += (a[i] - mean) * (b[i] - mean);
    squares_a += (a[i] - mean) * (a[i] - mean);
    squares_b += (b[i] - mean) * (b[i] - mean);
  }
  if (squares_a == 0 || squares_b == 0) return std::numeric_limits<double>::quiet_NaN();
  return both / std::sqrt(squares_a * squares_b);
}

}  // namespace

double spearman(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size()) {
    throw ErrorException(ErrorCode::kWrongShape,
                         fmt::format("a rank correlation of {} values with {}", a.size(), b.size()));
  }
  if (any_nan(a) || any_nan(b)) return std::numeric_limits<double>::quiet_NaN();
  return correlation_of_ranks(average_ranks(a), average_ranks(b));
}

double Spearman::value() const {
  if (rows_.has_nan()) return std::numeric_limits<double>::quiet_NaN();
  return mean_of_defined(by_column());
}

}  // namespace millrace

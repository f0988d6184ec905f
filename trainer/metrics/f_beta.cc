#include "millrace/trainer/metrics/f_beta.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

struct Counts {
  double hits = 0;
  double missed = 0;
  double false_alarms = 0;

  double f_beta(double beta) const {
    const double weighted = (1 + beta * beta) * hits;
    const double all = weighted + beta * beta * missed + false_alarms;
    return all == 0 ? 0 : weighted / all;
  }
};

Counts counts_of(std::span<const double> scores, std::span<const double> labels, double threshold) {
  Counts counts;
  for (size_t i = 0; i < scores.size(); ++i) {
    const bool said = scores[i] > threshold;
    const bool is = labels[i] > 0.5;
    if (said && is) ++counts.hits;
    if (!said && is) ++counts.missed;
    if (said && !is) ++counts.false_alarms;
  }
  return counts;
}

}  // namespace

FBeta::FBeta(FBetaOptions options) : options_(std::move(options)), rows_(options_.columns) {
  if (options_.beta > 0 && std::isfinite(options_.beta)) return;
  throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("beta is {}; more than 0 is needed", options_.beta));
}

std::string FBeta::name() const { return fmt::format("f{}", options_.beta); }

double FBeta::value() const {
  if (rows_.has_nan()) return std::numeric_limits<double>::quiet_NaN();
  Counts all;
  double sum = 0;
  for (int64_t column = 0; column < rows_.columns(); ++column) {
    const Counts counts =
        counts_of(rows_.column(rows_.predictions(), column), rows_.column(rows_.labels(), column), options_.threshold);
    sum += counts.f_beta(options_.beta);
    all.hits += counts.hits;
    all.missed += counts.missed;
    all.false_alarms += counts.false_alarms;
  }
  if (options_.average == FBetaAverage::kMacro) return sum / static_cast<double>(rows_.columns());
  return all.f_beta(options_.beta);
}

std::vector<double> FBeta::by_column() const {
  return rows_.by_column([this](std::span<const double> scores, std::span<const double> labels) {
    if (any_nan(scores) || any_nan(labels)) return std::numeric_limits<double>::quiet_NaN();
    return counts_of(scores, labels, options_.threshold).f_beta(options_.beta);
  });
}

}  // namespace millrace

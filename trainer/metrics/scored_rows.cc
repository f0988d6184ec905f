#include "millrace/trainer/metrics/scored_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

// Adds the values of a feature or of predictions after others.
template <typename HasValues>
size_t append(std::vector<double>& all, const std::string& name, const HasValues& from, MetricValues values_may_be) {
  const auto add = [&](const auto& values) {
    all.insert(all.end(), values.begin(), values.end());
    return values.size();
  };
  // Of the wrong type is said by the last.
  try {
    if (values_may_be == MetricValues::kAny) return add(from.template values<float>(name));
  } catch (const ErrorException& error) {
    if (error.error().code != ErrorCode::kWrongShape) throw;
  }
  try {
    return add(from.template values<int32_t>(name));
  } catch (const ErrorException& error) {
    if (error.error().code != ErrorCode::kWrongShape) throw;
  }
  return add(from.template values<int64_t>(name));
}

// A batch, asked by name as predictions are.
struct Features {
  const BatchView& rows;
  template <typename T>
  std::span<const T> values(const std::string& name) const {
    return rows.feature(name).values<T>();
  }
};

}  // namespace

void ScoredRows::add(const BatchView& rows, const Predictions& predictions) {
  const size_t predicted = append(predictions_, names_.predictions, predictions, values_);
  const size_t labelled = append(labels_, names_.labels, Features{rows}, values_);
  if (rows.rows() == 0) return;
  const auto columns = static_cast<int64_t>(labelled) / rows.rows();
  if (predicted != labelled || (rows_ > 0 && columns != columns_)) {
    throw ErrorException(
        ErrorCode::kWrongShape,
        fmt::format("{} rows have {} values of '{}' and {} of '{}'; as many of both, and the same for each row, are "
                    "needed",
                    rows.rows(), predicted, names_.predictions, labelled, names_.labels));
  }
  columns_ = columns;
  rows_ += rows.rows();
}

bool any_nan(std::span<const double> values) {
  return std::ranges::any_of(values, [](double value) { return std::isnan(value); });
}

double mean_of_defined(std::span<const double> values) {
  double sum = 0;
  int64_t defined = 0;
  for (const double value : values) {
    if (std::isnan(value)) continue;
    sum += value;
    ++defined;
  }
  return defined == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(defined);
}

bool ScoredRows::has_nan() const { return any_nan(predictions_) || any_nan(labels_); }

std::vector<double> ScoredRows::by_column(
    const std::function<double(std::span<const double> predictions, std::span<const double> labels)>& measure) const {
  std::vector<double> values;
  for (int64_t i = 0; rows_ > 0 && i < columns_; ++i) {
    values.push_back(measure(column(predictions_, i), column(labels_, i)));
  }
  return values;
}

std::vector<double> ScoredRows::column(const std::vector<double>& values, int64_t column) const {
  std::vector<double> found;
  for (int64_t row = 0; row < rows_; ++row) found.push_back(values[static_cast<size_t>(row * columns_ + column)]);
  return found;
}

}  // namespace millrace

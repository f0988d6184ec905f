#include "millrace/trainer/predictions.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

std::vector<std::string_view> names_of(const Predictions& predictions) {
  std::vector<std::string_view> names;
  for (const PredictedColumn& column : predictions.columns) names.push_back(column.name);
  return names;
}

void check(const Predictions& predictions) {
  for (const PredictedColumn& column : predictions.columns) {
    int64_t expected = predictions.rows;
    for (const int64_t size : column.row_shape) expected *= size;
    const auto there =
        static_cast<int64_t>(std::visit([](const auto& values) { return values.size(); }, column.values));
    if (there == expected) continue;
    throw ErrorException(ErrorCode::kWrongShape,
                         fmt::format("predictions '{}' have {} values; {} rows of shape [{}] have {}", column.name,
                                     there, predictions.rows, fmt::join(column.row_shape, ", "), expected));
  }
}

}  // namespace

template <typename T>
std::span<const T> Predictions::values(std::string_view name) const {
  const auto found = std::ranges::find(columns, name, &PredictedColumn::name);
  if (found == columns.end()) {
    throw ErrorException(ErrorCode::kMissingFeature,
                         fmt::format("no predictions '{}'; there are: {}", name, fmt::join(names_of(*this), ", ")));
  }
  const auto* values = std::get_if<std::vector<T>>(&found->values);
  if (values == nullptr) {
    throw ErrorException(ErrorCode::kWrongShape, fmt::format("predictions '{}' are of another type", name));
  }
  return *values;
}

template std::span<const int32_t> Predictions::values(std::string_view) const;
template std::span<const int64_t> Predictions::values(std::string_view) const;
template std::span<const float> Predictions::values(std::string_view) const;

void Predictions::append(Predictions more) {
  check(more);
  result.add(more.result);
  if (rows == 0 && columns.empty()) {
    rows = more.rows;
    columns = std::move(more.columns);
    return;
  }
  const auto same = [](const PredictedColumn& a, const PredictedColumn& b) {
    return a.name == b.name && a.row_shape == b.row_shape && a.values.index() == b.values.index();
  };
  if (!std::ranges::equal(columns, more.columns, same)) {
    throw ErrorException(ErrorCode::kWrongShape,
                         fmt::format("predictions of other columns, types or shapes: {} and {}",
                                     fmt::join(names_of(*this), ", "), fmt::join(names_of(more), ", ")));
  }
  rows += more.rows;
  for (size_t i = 0; i < columns.size(); ++i) {
    std::visit(
        [&](auto& values) {
          const auto& after = std::get<std::remove_reference_t<decltype(values)>>(more.columns[i].values);
          values.insert(values.end(), after.begin(), after.end());
        },
        columns[i].values);
  }
}

}  // namespace millrace

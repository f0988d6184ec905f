#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "millrace/trainer/step_result.h"

namespace millrace {

/// One named value, or tensor, for each row.
struct PredictedColumn {
  using Values = std::variant<std::vector<int32_t>, std::vector<int64_t>, std::vector<float>>;

  std::string name = {};
  std::vector<int64_t> row_shape = {};  ///< of one row; empty for a scalar
  Values values = {};                   ///< `[rows, row_shape...]`, row major
};

/// What a model says of a run of rows, in their order. It owns its values.
///
///     std::span<const int32_t> ids = predictions.values<int32_t>("ids");
struct Predictions {
  int64_t rows = 0;
  std::vector<PredictedColumn> columns = {};
  StepResult result = {};  ///< losses and metrics where the rows have labels; zeros otherwise

  /// The values of a column; T is int32_t, int64_t or float. Throws `kMissingFeature` naming those there are, and
  /// `kWrongShape` for another type.
  template <typename T>
  std::span<const T> values(std::string_view name) const;
  /// Adds the rows of `more` after these. Throws `kWrongShape` when the columns differ, or have not a value for each
  /// row.
  void append(Predictions more);
};

}  // namespace millrace

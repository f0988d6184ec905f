#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "millrace/pipeline/dataset.h"
#include "millrace/trainer/model.h"

namespace millrace {

/// What a model says of all rows of some batches, in their order: `[rows, columns]`.
struct PredictedRows {
  std::vector<float> predictions = {};
  std::vector<float> labels = {};  ///< the feature `labels`, where there is one
};
/// `column`: of the predictions. `on_progress` is told after each batch how many rows are predicted, and may be null.
/// Throws what model, pipeline and `on_progress` do.
[[nodiscard]] PredictedRows predict_rows(const Model& model, std::span<const float> weights, const Dataset& batches,
                                         const std::string& column, int threads,
                                         const std::function<void(int64_t rows)>& on_progress = nullptr);

/// A row and what is said of it, for people: the largest number first, of equal ones the one that comes first.
struct ShownRow {
  std::string id = {};
  std::string title = {};
  std::vector<std::pair<std::string, double>> said = {};
};
[[nodiscard]] ShownRow shown_row(std::string id, std::string title, std::span<const std::string> names,
                                 std::span<const double> values);
/// Two lines with the first `most` numbers; texts that others have written are made printable.
[[nodiscard]] std::string to_text(const ShownRow& row, size_t most = 5);
/// An object: `id`, `title` and `said`, an object with all numbers.
[[nodiscard]] nlohmann::ordered_json to_json(const ShownRow& row);

}  // namespace millrace

#include "millrace/trainer/run/predicted_rows.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/utf8.h"
#include "millrace/trainer/pipeline_source.h"
#include "millrace/trainer/predictor.h"

namespace millrace {

PredictedRows predict_rows(const Model& model, std::span<const float> weights, const Dataset& batches,
                           const std::string& column, int threads,
                           const std::function<void(int64_t rows)>& on_progress) {
  Predictor predictor(model, weights, {.threads = threads});
  PipelineSource source(batches.start({.threads = threads}));
  PredictedRows rows;
  int64_t num_rows = 0;
  predictor.predict(source, [&](const GlobalBatch& batch, const Predictions& predictions) {
    std::ranges::copy(predictions.values<float>(column), std::back_inserter(rows.predictions));
    const FeatureView* labels = batch.view.find("labels");
    if (labels != nullptr) std::ranges::copy(labels->values<float>(), std::back_inserter(rows.labels));
    num_rows += batch.view.rows();
    if (on_progress) on_progress(num_rows);
  });
  return rows;
}

ShownRow shown_row(std::string id, std::string title, std::span<const std::string> names,
                   std::span<const double> values) {
  ShownRow row{.id = std::move(id), .title = std::move(title)};
  row.said.reserve(names.size());
  for (size_t i = 0; i < names.size(); ++i) row.said.emplace_back(names[i], values[i]);
  std::ranges::stable_sort(row.said, std::greater(), &std::pair<std::string, double>::second);
  return row;
}

std::string to_text(const ShownRow& row, size_t most) {
  std::string text = fmt::format("{}: {}\n ", printable(excerpt(row.id)), printable(excerpt(row.title)));
  for (size_t i = 0; i < std::min(most, row.said.size()); ++i) {
    text += fmt::format("  {} {:.2f}", printable(row.said[i].first), row.said[i].second);
  }
  return text + "\n";
}

nlohmann::ordered_json to_json(const ShownRow& row) {
  nlohmann::ordered_json said = nlohmann::ordered_json::object();
  for (const auto& [name, value] : row.said) said[name] = value;
  return {{"id", row.id}, {"title", row.title}, {"said", said}};
}

}  // namespace millrace

#include "millrace/trainer/metrics/ensemble.h"

#include <cmath>

#include "millrace/formats/error.h"
#include "millrace/trainer/metrics/ranks.h"

namespace millrace {
namespace {

double sigmoid_of(double logit) { return 1 / (1 + std::exp(-logit)); }

// What one model adds to the mean.
std::vector<double> share_of(Ensemble kind, std::span<const float> logits, size_t columns) {
  std::vector<double> values(logits.begin(), logits.end());
  if (kind == Ensemble::kProbabilities) {
    for (double& value : values) value = sigmoid_of(value);
  }
  if (kind != Ensemble::kRanks) return values;
  const size_t rows = values.size() / columns;
  std::vector<double> column(rows);
  for (size_t c = 0; c < columns; ++c) {
    for (size_t row = 0; row < rows; ++row) column[row] = values[row * columns + c];
    const std::vector<double> places = average_ranks(column);
    for (size_t row = 0; row < rows; ++row) {
      values[row * columns + c] = (places[row] - 0.5) / static_cast<double>(rows);
    }
  }
  return values;
}

}  // namespace

std::vector<double> ensemble(Ensemble kind, std::span<const std::vector<float>> logits_of_models, int64_t columns) {
  const auto refuse = [](const char* what) { throw ErrorException(ErrorCode::kWrongShape, what); };
  if (logits_of_models.empty()) refuse("an ensemble of no model");
  const size_t size = logits_of_models.front().size();
  if (columns < 1 || size % static_cast<size_t>(columns) != 0) refuse("an ensemble of rows that are not whole");
  std::vector<double> mean(size);
  for (const std::vector<float>& logits : logits_of_models) {
    if (logits.size() != size) refuse("an ensemble of models that predicted unlike numbers of rows");
    const std::vector<double> share = share_of(kind, logits, static_cast<size_t>(columns));
    for (size_t i = 0; i < size; ++i) mean[i] += share[i] / static_cast<double>(logits_of_models.size());
  }
  if (kind == Ensemble::kLogits) {
    for (double& value : mean) value = sigmoid_of(value);
  }
  return mean;
}

}  // namespace millrace

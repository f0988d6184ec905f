#include "millrace/trainer/predictor.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/evaluation.h"

namespace millrace {

namespace {

FlatBuffer copy_of(std::span<const float> weights) {
  FlatBuffer copy(std::ssize(weights));
  std::ranges::copy(weights, copy.data());
  return copy;
}

}  // namespace

Predictor::Predictor(const Model& model, std::span<const float> weights, PredictorOptions options)
    : Predictor(model, copy_of(weights), std::move(options)) {}

Predictor::Predictor(const Model& model, FlatBuffer weights, PredictorOptions options)
    : state_(model.layout(), none_),
      graph_(
          model, none_, state_,
          {.replicas = options.replicas, .threads = options.threads, .make_worker = std::move(options.make_worker)}) {
  if (weights.size() != state_.weights.size()) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("{} weights; the model's layout has {}", weights.size(), state_.weights.size()));
  }
  state_.weights = std::move(weights);
}

void Predictor::predict(BatchSource& source, const std::function<void(const GlobalBatch&, const Predictions&)>& take) {
  while (const std::optional<GlobalBatch> batch = source.next()) take(*batch, predict(batch->view));
}

EvaluationReport Predictor::evaluate(BatchSource& source, const std::vector<std::unique_ptr<Metric>>& metrics) {
  return *millrace::evaluate(graph_, source, metrics);
}

}  // namespace millrace

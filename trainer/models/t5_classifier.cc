#include "millrace/trainer/models/t5_classifier.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/models/config_limits.h"
#include "millrace/trainer/models/t5_pretrained.h"

namespace millrace {

T5Classifier::T5Classifier(T5Config config, std::vector<int32_t> class_tokens, std::string start)
    : t5_(std::move(config)), class_tokens_(std::move(class_tokens)), start_(std::move(start)) {
  for (auto token = class_tokens_.begin(); token != class_tokens_.end(); ++token) {
    check_token("the token of a class", *token, t5_.config().vocab_size);
    if (std::find(class_tokens_.begin(), token, *token) == token) continue;
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("token {} is of two classes", *token));
  }
}

void T5Classifier::initialize(std::span<float> weights, uint64_t seed) const {
  if (start_.empty()) return t5_.initialize(weights, seed);
  const FlatBuffer loaded = load_t5_weights(start_, t5_);
  std::ranges::copy(loaded.span(), weights.begin());
}

Predictions T5Classifier::predict(const BatchView& rows, const float* weights, Workspace& workspace) const {
  Predictions predictions = t5_.predict_first(rows, weights, workspace);
  const auto tokens = predictions.values<int32_t>("token");
  std::vector<int64_t> classes;
  classes.reserve(tokens.size());
  for (const int32_t token : tokens) {
    const auto found = std::ranges::find(class_tokens_, token);
    classes.push_back(found == class_tokens_.end() ? -1 : found - class_tokens_.begin());
  }
  predictions.columns.push_back({.name = "class", .row_shape = {1}, .values = std::move(classes)});
  return predictions;
}

}  // namespace millrace

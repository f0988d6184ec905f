#include "examples/frozen_features/frozen_head.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "millrace/formats/error.h"
#include "millrace/formats/safetensors/writer.h"
#include "millrace/formats/storage/atomic_directory.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/trainer/checkpoint/parameter_file.h"
#include "millrace/trainer/tensor/bce_with_logits.h"
#include "millrace/trainer/tensor/linear.h"
#include "millrace/trainer/tensor/sigmoid.h"
#include "millrace/trainer/tensor/sum.h"

namespace millrace {

FrozenHead::FrozenHead(const FeatureSet& set)
    : classes_(set.classes),
      network_(set.network),
      size_(set.size),
      background_(set.background),
      mean_(set.mean.begin(), set.mean.end()) {
  // A feature that never changes says nothing.
  std::ranges::transform(set.deviation, std::back_inserter(scale_),
                         [](double deviation) { return deviation > 0 ? static_cast<float>(1 / deviation) : 0.0F; });
  weight_ = layout_.add("head.weight", {std::ssize(classes_), std::ssize(mean_)});
  bias_ = layout_.add("head.bias", {std::ssize(classes_)});
  layout_.finish();
}

std::string FrozenHead::describe() const {
  const auto digest = [](const std::vector<float>& values) {
    return XXH3_64bits(values.data(), values.size() * sizeof(float));
  };
  return fmt::format("frozen_head(classes {}, network {}, mean {:016x}, scale {:016x})", fmt::join(classes_, " "),
                     network_, digest(mean_), digest(scale_));
}

void FrozenHead::initialize(std::span<float> weights, uint64_t) const { std::ranges::fill(weights, 0.0F); }

ForwardResult<float> FrozenHead::forward(ForwardPass<float>& pass) const { return run(pass); }
ForwardResult<double> FrozenHead::forward_in_double(ForwardPass<double>& pass) const { return run(pass); }

template <typename T>
ForwardResult<T> FrozenHead::run(ForwardPass<T>& pass) const {
  Tape<T>& tape = pass.tape();
  const Tensor<T> features = pass.constant("features");
  const TensorShape expected = {pass.rows().rows(), std::ssize(mean_)};
  if (features.count() != expected.count()) {
    throw ErrorException(ErrorCode::kWrongShape, fmt::format("{} values of {} rows; a row has {} features",
                                                             features.count(), pass.rows().rows(), mean_.size()));
  }
  T* standardised = tape.template keep<T>(features.count());
  for (int64_t i = 0; i < features.count(); ++i) {
    const auto feature = static_cast<size_t>(i % std::ssize(mean_));
    standardised[i] = (features.values[i] - static_cast<T>(mean_[feature])) * static_cast<T>(scale_[feature]);
  }
  const Tensor<T> logits =
      linear(tape, tape.constant(standardised, expected), tape.parameter(weight_), tape.parameter(bias_));
  const std::vector<int32_t> said = largest_in_rows(logits);
  ForwardResult<T> result;
  if (pass.predicts()) {
    result.columns = {{.name = "class", .values = said}, predicted_column("probabilities", sigmoid(tape, logits))};
  }
  if (const FeatureView* labels = pass.labels("label")) {
    const Tensor<T> label = pass.constant(*labels);
    const Tensor<T> losses = bce_with_logits(tape, logits, label);
    result.losses.emplace_back(sum(tape, losses), static_cast<double>(losses.count()));
    const std::vector<int32_t> truth = largest_in_rows(label);
    MetricSum accuracy{.name = "accuracy", .weight = static_cast<double>(truth.size())};
    for (size_t row = 0; row < truth.size(); ++row) accuracy.sum += said[row] == truth[row] ? 1 : 0;
    result.metrics = {accuracy};
  }
  return result;
}

void FrozenHead::save(const std::string& folder, std::span<const float> weights) const {
  AtomicDirectory directory(folder);
  const auto of_features = [&](const char* name, const std::vector<float>& values) -> NamedTensor {
    return {.name = name, .shape = {std::ssize(values)}, .bytes = std::as_bytes(std::span(values))};
  };
  std::vector<NamedTensor> tensors = parameter_tensors(layout_, weights);
  tensors.push_back(of_features("features.mean", mean_));
  tensors.push_back(of_features("features.scale", scale_));
  write_safetensors(directory.temporary_path() + "/model.safetensors", tensors, {{"format", "pt"}});
  const nlohmann::ordered_json json = {
      {"classes", classes_}, {"network", network_}, {"size", size_}, {"background", background_}};
  write_atomically(directory.temporary_path() + "/head.json", json.dump(2) + "\n");
  directory.commit();
}

}  // namespace millrace

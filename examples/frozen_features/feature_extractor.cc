#include "examples/frozen_features/feature_extractor.h"

#include <algorithm>
#include <utility>

#include "millrace/trainer/tensor/relu.h"

namespace millrace {

FeatureExtractor::FeatureExtractor(Vgg network) : network_(std::move(network)) { no_parameters_.finish(); }

std::unique_ptr<FeatureExtractor::Work> FeatureExtractor::take_work() const {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return std::make_unique<Work>();
  std::unique_ptr<Work> work = std::move(idle_.back());
  idle_.pop_back();
  return work;
}

void FeatureExtractor::extract(std::span<const float> pixels, int64_t height, int64_t width,
                               std::span<float> features) const {
  std::unique_ptr<Work> work = take_work();
  Tape<float>& tape = work->tape;
  tape.begin(no_parameters_, nullptr);
  auto* image = tape.keep<float>(std::ssize(pixels));
  std::ranges::transform(pixels, image, [](float value) { return value / 255; });
  const Tensor<float> maps = relu(tape, network_.maps(tape, tape.constant(image, {1, height, width, 3})));
  const int64_t channels = maps.columns();
  std::ranges::fill(features, 0.0F);
  for (int64_t i = 0; i < maps.count(); ++i) features[static_cast<size_t>(i % channels)] += maps.values[i];
  for (float& value : features) value /= static_cast<float>(maps.rows());
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(work));
}

}  // namespace millrace

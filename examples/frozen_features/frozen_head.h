#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "examples/frozen_features/feature_set.h"
#include "millrace/trainer/tape_model.h"

namespace millrace {

/// A dense sigmoid head: features, each less its mean and divided by its deviation over the pictures to train on, then
/// one linear layer with an output for each class. The loss is the binary cross entropy of each output, their mean; the
/// metric `accuracy` says of how many rows the largest output is that of the class. Reads `features`, float32 [rows,
/// length], and `label`, float32 [rows, classes]; predicts `class`, int32 [rows], and `probabilities`, float32 [rows,
/// classes]. Immutable; any thread.
class FrozenHead final : public TapeModel {
 public:
  /// For the features of a set.
  explicit FrozenHead(const FeatureSet& set);

  std::string describe() const override;
  /// All 0: the loss is convex.
  void initialize(std::span<float> weights, uint64_t seed) const override;
  ForwardResult<float> forward(ForwardPass<float>& pass) const override;
  ForwardResult<double> forward_in_double(ForwardPass<double>& pass) const override;

  /// Writes `model.safetensors` (`head.weight` [classes, length], `head.bias`, and what features are standardised with,
  /// `features.mean` and `features.scale`: x becomes (x - mean) * scale) and `head.json` (classes, network, what it
  /// saw) into a folder, whole or not at all. Throws `kIo`.
  void save(const std::string& folder, std::span<const float> weights) const;

 private:
  template <typename T>
  ForwardResult<T> run(ForwardPass<T>& pass) const;

  const std::vector<std::string> classes_;
  const std::string network_;
  const int64_t size_;
  const std::vector<int64_t> background_;
  std::vector<float> mean_;
  std::vector<float> scale_;
  int weight_ = 0;
  int bias_ = 0;
};

}  // namespace millrace

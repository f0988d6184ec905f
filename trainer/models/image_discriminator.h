#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "millrace/trainer/parameters.h"
#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// The sizes of an `ImageDiscriminator`.
struct DiscriminatorConfig {
  int64_t channels = 64;  ///< of the first level; each has twice as many as the one before, up to 8 times. Default: 64
  int64_t levels = 4;     ///< each halves the image's sides, 1 to 8. Default: 4

  /// Throws `kInvalidArgument` naming what is out of range.
  void check() const;
  std::string describe() const;
};

/// What tells real images from generated ones, after that of ESRGAN (https://arxiv.org/abs/1809.00219): at each level
/// two 3x3 convolutions, the second with a stride of 2, each with a leaky ReLU of slope 0.2; then the mean over the
/// positions, 100 units, and one. There is no batch normalisation, whose statistics would depend on how a batch is
/// split over replicas, and the mean makes it one for images of any size. A part of a model; its parameters lie in the
/// model's layout. Immutable, any thread.
class ImageDiscriminator {
 public:
  /// Registers the parameters in `layout`, under names that begin with `prefix`, to follow `loss`. Throws
  /// `kInvalidArgument` as `check` of the config.
  ImageDiscriminator(ParameterLayout& layout, const DiscriminatorConfig& config, const std::string& prefix = "",
                     int loss = 0);

  const DiscriminatorConfig& config() const { return config_; }
  /// Writes start values into `weights` of the layout: normal as He and others have them; biases are 0.
  void initialize(const ParameterLayout& layout, std::span<float> weights, uint64_t seed) const;
  /// Of images `[images, height, width, 3]` with values from 0 to 1 how real they are, as logits `[images, 1]`.
  template <typename T>
  Tensor<T> logits(Tape<T>& tape, const Tensor<T>& images) const;

 private:
  struct Layer {
    int weight = 0;
    int bias = 0;
    int64_t stride = 1;
  };

  DiscriminatorConfig config_;
  std::vector<Layer> convolutions_;
  std::vector<Layer> dense_;
};

}  // namespace millrace

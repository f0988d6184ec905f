#pragma once

#include <memory>
#include <optional>
#include <string>

#include "millrace/trainer/models/image_discriminator.h"
#include "millrace/trainer/models/image_generator.h"
#include "millrace/trainer/models/vgg.h"
#include "millrace/trainer/tape_model.h"

namespace millrace {

/// What a generator is trained by: the factors of the terms of its loss. 0: the term is not computed.
struct SuperResolutionLosses {
  double absolute = 1;     ///< of the mean absolute error of the pixels (L1). Default: 1
  double squared = 0;      ///< of their mean squared error. Default: 0
  double perceptual = 0;   ///< of the mean absolute error of a frozen network's features. Default: 0
  double adversarial = 0;  ///< of the relativistic average GAN's loss. Default: 0
};

struct SuperResolutionOptions {
  GeneratorConfig generator = {};
  SuperResolutionLosses losses = {};
  DiscriminatorConfig discriminator = {};         ///< where there is an adversarial term
  std::shared_ptr<const Vgg> features = nullptr;  ///< needed for a perceptual term. Default: none
  /// What the generator is to make is what this one makes, in place of the batch's images. Default: none
  std::shared_ptr<const TrainedGenerator> teacher = nullptr;
  std::string generator_folder = {};  ///< of a model that `initialize` starts with. Default: none
};

/// Images that are four times as large: a generator (`ImageGenerator`), and what it is trained by. With an adversarial
/// term there is a discriminator as well, trained in the same step from the same forward pass: the generator's
/// parameters, `generator.*`, follow loss 0, the discriminator's, `discriminator.*`, loss 1.
///
/// Batches have float32 `low_res_image` `[rows, height, width, 3]` and `high_res_image` `[rows, 4 height, 4 width, 3]`
/// with values from 0 to 1. Each term is a mean over the values of an image, and then over rows. With C(r) the
/// discriminator's logits of real images and C(f) of generated ones, means over the rows of a replica, and bce(x, t)
/// the binary cross entropy of sigmoid(x) (https://arxiv.org/abs/1807.00734):
///
///     generator:     (bce(C(r) - mean C(f), 0) + bce(C(f) - mean C(r), 1)) / 2
///     discriminator: (bce(C(r) - mean C(f), 1) + bce(C(f) - mean C(r), 0)) / 2
///
/// A replica compares its own rows alone, so with an adversarial term results depend on the number of replicas. Metrics
/// are the terms without their factors, and `told_apart`, the share of images, real and generated, that the
/// discriminator puts on their side. It predicts the column `high_res_image`, cut to 0 to 1. Immutable, any thread.
class SuperResolution final : public TapeModel {
 public:
  /// Throws `kInvalidArgument` for factors that are negative or all 0, and for a term without what it needs.
  explicit SuperResolution(SuperResolutionOptions options);

  const ImageGenerator& generator() const { return generator_; }
  const SuperResolutionOptions& options() const { return options_; }
  std::string describe() const override;
  /// Throws as TrainedGenerator, and `kInvalidArgument` where the folder's generator has other sizes.
  void initialize(std::span<float> weights, uint64_t seed) const override;
  ForwardResult<float> forward(ForwardPass<float>& pass) const override { return run(pass); }
  ForwardResult<double> forward_in_double(ForwardPass<double>& pass) const override { return run(pass); }

 private:
  template <typename T>
  ForwardResult<T> run(ForwardPass<T>& pass) const;
  template <typename T>
  Tensor<T> taught(Tape<T>& tape, const Tensor<T>& low) const;
  template <typename T>
  void add_adversarial(Tape<T>& tape, const Tensor<T>& real, const Tensor<T>& made, Tensor<T>& total,
                       ForwardResult<T>& result) const;

  SuperResolutionOptions options_;
  ImageGenerator generator_;
  std::optional<ImageDiscriminator> discriminator_;
};

}  // namespace millrace

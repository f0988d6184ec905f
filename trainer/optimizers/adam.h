#pragma once

#include "millrace/trainer/optimizers/optimizer.h"

namespace millrace {

/// Where epsilon is added.
enum class AdamEpsilon {
  kCorrected,  ///< `lr mh / (sqrt(vh) + eps)`, moments corrected first: the paper's algorithm 1, torch
  kHat,        ///< `lr sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + eps)`: the paper's "epsilon hat", Keras 2
};

/// How decoupled weight decay is written. The two differ in rounding only.
enum class DecayForm {
  kScale,     ///< `w *= 1 - lr wd` (torch)
  kSubtract,  ///< `w -= lr wd w` (tensorflow/models, Hugging Face's TensorFlow AdamWeightDecay)
};

struct AdamOptions {
  double beta1 = 0.9;                                  ///< Default: 0.9
  double beta2 = 0.999;                                ///< Default: 0.999
  double epsilon = 1e-8;                               ///< Default: 1e-8
  AdamEpsilon epsilon_form = AdamEpsilon::kCorrected;  ///< Default: kCorrected
  double weight_decay = 0;                             ///< decoupled; applied before the Adam step. Default: 0
  DecayForm decay_form = DecayForm::kScale;            ///< Default: kScale
  std::string exclude_from_decay = {};                 ///< see `weight_decays`. Default: empty, none is excluded
};

/// Adam (arXiv 1412.6980) and its forms with decoupled weight decay (arXiv 1711.05101). Slots `m` and `v`.
class Adam final : public Optimizer {
 public:
  /// Throws `kInvalidArgument` for options out of range.
  Adam(const ParameterLayout& layout, AdamOptions options);
  std::string describe() const override;
  std::span<const std::string_view> slot_names() const override;
  void update(const UpdateRange& range, const UpdateStep& step, const UpdateBuffers& buffers) const override;

 private:
  AdamOptions options_;
  std::vector<double> decays_;
};

/// Options of torch.optim.AdamW: decay 0.01 on all parameters unless some are excluded.
AdamOptions adamw(double weight_decay = 0.01, std::string exclude_from_decay = "");
/// Options of AdamWeightDecay as tensorflow/models and Hugging Face have it: decay first, epsilon hat, and by default
/// no decay for layer norms and biases.
AdamOptions adam_weight_decay(double weight_decay, std::string exclude_from_decay = std::string(kUsualExclusion));

/// Throws `kInvalidArgument` unless 0 <= beta < 1 for both and epsilon > 0.
void check_moments(double beta1, double beta2, double epsilon);

}  // namespace millrace

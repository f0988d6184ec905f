#pragma once

#include "millrace/trainer/optimizers/optimizer.h"

namespace millrace {

struct LambOptions {
  double beta1 = 0.9;                   ///< Default: 0.9
  double beta2 = 0.999;                 ///< Default: 0.999
  double epsilon = 1e-6;                ///< Default: 1e-6
  double weight_decay = 0;              ///< Default: 0
  std::string exclude_from_decay = {};  ///< names matched get neither decay nor a trust ratio. Default: empty
};

/// LAMB (arXiv 1904.00962 version 3, with bias correction, phi(x) = x): `u = mh / (sqrt(vh) + eps) + wd w;
/// w -= lr q u`, where q = |w| / |u| over the parameter, 1 if either is 0 or the name is excluded. Slots `m` and `v`.
class Lamb final : public Optimizer {
 public:
  /// Throws `kInvalidArgument` for options out of range.
  explicit Lamb(const ParameterLayout& layout, LambOptions options = {});
  std::string describe() const override;
  std::span<const std::string_view> slot_names() const override;
  bool layerwise() const override { return true; }
  void update(const UpdateRange& range, const UpdateStep& step, const UpdateBuffers& buffers) const override;
  LayerSquares direction(const UpdateRange& range, const UpdateStep& step, const UpdateBuffers& buffers) const override;
  void apply(const UpdateRange& range, const UpdateStep& step, const UpdateBuffers& buffers,
             const LayerSquares& squares) const override;

 private:
  LambOptions options_;
  std::vector<double> decays_;
  std::vector<double> included_;  // 1 where the name is not excluded
};

}  // namespace millrace

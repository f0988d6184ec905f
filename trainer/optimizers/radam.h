#pragma once

#include "millrace/trainer/optimizers/optimizer.h"

namespace millrace {

struct RadamOptions {
  double beta1 = 0.9;                   ///< Default: 0.9
  double beta2 = 0.999;                 ///< Default: 0.999
  double epsilon = 1e-6;                ///< Default: 1e-6
  double weight_decay = 0;              ///< added to the direction: `u += wd w`. Default: 0
  std::string exclude_from_decay = {};  ///< see `weight_decays`. Default: empty, none is excluded
};

/// Rectified Adam (arXiv 1908.03265): while the variance of the second moment cannot be trusted (updates 1 to 5 for
/// beta2 = 0.999) it is SGD with momentum; epsilon is outside the correction. Slots `m` and `v`.
class Radam final : public Optimizer {
 public:
  /// Throws `kInvalidArgument` for options out of range.
  explicit Radam(const ParameterLayout& layout, RadamOptions options = {});
  std::string describe() const override;
  std::span<const std::string_view> slot_names() const override;
  void update(const UpdateRange& range, const UpdateStep& step, const UpdateBuffers& buffers) const override;

 private:
  RadamOptions options_;
  std::vector<double> decays_;
};

/// The length of the approximated simple moving average at update `t`, and the rectification (0 where there is none).
struct RadamRectification {
  double sma = 0;
  double r = 0;
};
RadamRectification radam_rectification(double beta2, int64_t t);

}  // namespace millrace

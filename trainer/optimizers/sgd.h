#pragma once

#include "millrace/trainer/optimizers/optimizer.h"

namespace millrace {

struct SgdOptions {
  double momentum = 0;  ///< mu; 0 keeps no slot. Default: 0
};

/// Stochastic gradient descent: `w -= lr g`; with momentum `v = mu v + g; w -= lr v` (as torch.optim.SGD).
class Sgd final : public Optimizer {
 public:
  explicit Sgd(SgdOptions options = {});
  std::string describe() const override;
  std::span<const std::string_view> slot_names() const override;
  void update(const UpdateRange& range, const UpdateStep& step, const UpdateBuffers& buffers) const override;

 private:
  SgdOptions options_;
};

}  // namespace millrace

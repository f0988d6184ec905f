#include "millrace/trainer/step/loss_scaling.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {

void LossScaling::check() const {
  const bool in_order = lowest > 0 && initial >= lowest && highest >= initial;
  if (in_order && std::isfinite(static_cast<float>(highest)) && factor > 1 && growth_interval >= 1) return;
  throw ErrorException(ErrorCode::kInvalidArgument,
                       describe() +
                           "; 0 < lowest <= initial <= highest, a highest that float32 holds, factor > 1 and "
                           "growth_interval >= 1 are needed");
}

std::string LossScaling::describe() const {
  return fmt::format("loss_scaling(initial={}, factor={}, growth_interval={}, lowest={}, highest={})", initial, factor,
                     growth_interval, lowest, highest);
}

bool LossScale::step_ends(const LossScaling& scaling, bool updated) {
  if (!updated) {
    const bool to_blame = scale > scaling.lowest;
    scale = std::max(scaling.lowest, scale / scaling.factor);
    good_steps = 0;
    return to_blame;
  }
  if (++good_steps < scaling.growth_interval) return false;
  good_steps = 0;
  scale = std::min(scaling.highest, scale * scaling.factor);
  return false;
}

}  // namespace millrace

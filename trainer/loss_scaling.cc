#include "trainer/loss_scaling.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "formats/error.h"

namespace millrace {

void LossScaling::check() const {
  if (lowest > 0 && initial >= lowest && std::isfinite(initial) && factor > 1 && growth_interval >= 1) return;
  throw ErrorException(ErrorCode::kInvalidArgument,
                       describe() + "; 0 < lowest <= initial, factor > 1 and growth_interval >= 1 are needed");
}

std::string LossScaling::describe() const {
  return fmt::format("loss_scaling(initial={}, factor={}, growth_interval={}, lowest={})", initial, factor,
                     growth_interval, lowest);
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
  const double higher = scale * scaling.factor;
  if (std::isfinite(static_cast<float>(higher))) scale = higher;
  return false;
}

}  // namespace millrace

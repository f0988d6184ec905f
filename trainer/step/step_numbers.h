#pragma once

#include <cstdint>
#include <string>

namespace millrace {

/// Which step it is, and on which batch. Messages name both, steps counted from 1.
struct StepNumbers {
  int64_t step = 0;  ///< steps before this one
  /// Batches of the stream before this one, for `update` before the last one: keys the random choices.
  int64_t batch = 0;
  int64_t update = 1;  ///< 1 for the first update that is done
  /// Gradients come from the models multiplied by this, and are divided by it before anything else is made of them; the
  /// same for all batches of a step. For storage of few bits, see LossScaling. Default: 1
  double loss_scale = 1;
};

/// A step in messages, on the batches from `first_batch` to `last_batch`: `step 18 (batch 17)`, `step 3 (batches 4 to
/// 5)`. Steps as progress reports count them, from 1; batches from 0, as streams do.
std::string step_place(int64_t step, int64_t first_batch, int64_t last_batch);

}  // namespace millrace

#pragma once

#include <cstdint>
#include <vector>

#include "millrace/formats/random/counter_rng.h"

namespace millrace {

/// What mixup and cutmix draw for one batch, as a pure function of the batch's first row.
///
/// Draws, which states rely on: those from 2^32 on the tries at a Beta number, those from 2 * 2^32 on the steps of the
/// permutation; of draw 0 word 0 says whether the batch is mixed at all, and words 1 and 2 are for the caller.
class MixingDraws {
 public:
  MixingDraws(const CounterRng& rng, uint64_t first_row) : rng_(rng), row_(first_row) {}

  /// True with this probability.
  [[nodiscard]] bool applies(double probability) const { return rng_.words(row_)[0] < chance(probability); }
  /// A Beta(alpha, alpha) number in [0, 1], a multiple of 2^-24 (so the same with other mathematical libraries); alpha
  /// above 0. Above 1/2 by Ulrich's transformation, else by Jöhnk's rejection in logarithms (Devroye, Non-uniform
  /// random variate generation, 1986, IX.4).
  [[nodiscard]] double symmetric_beta(double alpha) const;
  /// A uniform permutation of the numbers below `size` (Fisher and Yates).
  [[nodiscard]] std::vector<size_t> permutation(size_t size) const;
  /// A uniform number below `limit`, the first or the second.
  [[nodiscard]] uint32_t below(uint32_t limit, size_t index) const {
    return uniform_below(rng_.words(row_)[1 + index], limit);
  }

 private:
  const CounterRng& rng_;
  uint64_t row_;
};

}  // namespace millrace

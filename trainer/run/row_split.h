#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "millrace/formats/random/counter_rng.h"

namespace millrace {

/// The parts of a data set, by their numbers: what rows are drawn into where nobody has split them.
inline constexpr std::array<const char*, 3> kSplits = {"train", "validation", "test"};

struct SplitShares {
  double validation = 0.1;  ///< Default: 0.1
  double test = 0.1;        ///< Default: 0.1
};

/// The split of all rows that have a key in common (an id, a group that must not be in two splits): a pure function of
/// seed and key, so the shares are about those.
inline int64_t split_of(std::string_view key, uint64_t seed, const SplitShares& shares) {
  const double drawn = static_cast<double>(CounterRng(seed, operator_id("split")).words(operator_id(key))[0]) * 0x1p-32;
  if (drawn < shares.test) return 2;
  return drawn < shares.test + shares.validation ? 1 : 0;
}

}  // namespace millrace

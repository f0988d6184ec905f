#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "millrace/formats/random/counter_rng.h"

namespace millrace {

class Dataset;

/// The parts of a data set; one without rows to test on has the first two.
enum class Split {
  kTrain,
  kValidation,
  kTest,
};

inline constexpr std::array<Split, 2> kTrainAndValidation = {Split::kTrain, Split::kValidation};

/// By the splits' numbers.
inline constexpr std::array<const char*, 3> kSplitNames = {"train", "validation", "test"};

/// The name of a split's folder, and in the names of files.
constexpr std::string_view to_string(Split split) { return kSplitNames[static_cast<size_t>(split)]; }

struct SplitShares {
  double validation = 0.1;  ///< Default: 0.1
  double test = 0.1;        ///< Default: 0.1
};

/// Adds int64 `split`: the number of `split_of` for the bytes of a feature.
[[nodiscard]] Dataset with_splits(const Dataset& rows, const std::string& key, uint64_t seed,
                                  const SplitShares& shares);

/// The split of all rows that have a key in common (an id, a group that must not be in two splits): a pure function of
/// seed and key, so the shares are about those.
inline Split split_of(std::string_view key, uint64_t seed, const SplitShares& shares) {
  const double drawn = static_cast<double>(CounterRng(seed, operator_id("split")).words(operator_id(key))[0]) * 0x1p-32;
  if (drawn < shares.test) return Split::kTest;
  return drawn < shares.test + shares.validation ? Split::kValidation : Split::kTrain;
}

}  // namespace millrace

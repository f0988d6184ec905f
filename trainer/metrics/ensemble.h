#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace millrace {

/// How the predictions of several models become one.
enum class Ensemble {
  kLogits,         ///< the sigmoid of the mean of their logits
  kProbabilities,  ///< the mean of their sigmoids
  kRanks,          ///< the mean of their places among the rows, 0 to 1: models of unlike scales count alike
};

/// One prediction in [0, 1] of the logits of each model, `[rows, columns]`. Ranks are of a column: the place of n rows
/// counts from 1, equal values share the mean of theirs, and it is (place - 0.5) / n. Throws `kWrongShape` for no model
/// or models of unlike sizes.
[[nodiscard]] std::vector<double> ensemble(Ensemble kind, std::span<const std::vector<float>> logits_of_models,
                                           int64_t columns);

}  // namespace millrace

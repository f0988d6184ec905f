#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "millrace/trainer/optimizers/optimizer.h"
#include "millrace/trainer/parameters.h"

namespace millrace {

/// What a training changes: weights and the optimizer's slots, all in the model's layout.
struct TrainedState {
  /// Zeros. `frozen`: parameters whose name contains a match of this regular expression (RE2; empty: none) are
  /// not trained: they have no gradient, are in no bucket, and neither decay nor momentum touches them. Throws
  /// `kInvalidArgument` for a pattern that is none, matches no parameter, or leaves nothing to train.
  TrainedState(const ParameterLayout& layout, const Optimizer& optimizer, const std::string& frozen = "");

  /// Elements of the parameters that are trained.
  int64_t num_trained(const ParameterLayout& layout) const;
  /// Ids of the parameters that are trained; nothing where all are.
  std::optional<std::vector<int>> trainable_ids() const;
  /// What is trained and the slots become those of `other`, a state of the same layout; weights stay.
  void take_rule_of(TrainedState other);

  /// By parameter id: 0 for those that are frozen.
  std::vector<uint8_t> trainable = {};
  FlatBuffer weights = {};
  std::vector<FlatBuffer> slots = {};  ///< one per slot name of the optimizer
};

}  // namespace millrace

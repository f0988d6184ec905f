#pragma once

#include <memory>
#include <string>
#include <vector>

#include "millrace/trainer/optimizers/optimizer.h"
#include "millrace/trainer/schedules/schedule.h"

namespace millrace {

/// Parameters that have an optimizer, and if they want a schedule, of their own.
struct OptimizerGroup {
  std::string parameters = {};                   ///< a regular expression (RE2) found in their names
  std::unique_ptr<Optimizer> optimizer = {};     ///< never null
  std::unique_ptr<Schedule> schedule = nullptr;  ///< Default: null, the trainer's
};

/// Several optimizers in one: each parameter is updated by the first group that its name belongs to. Two groups train
/// a generator and its discriminator from one forward pass; a group with a lower rate, an encoder below a new head.
///
///     std::vector<OptimizerGroup> groups;
///     groups.push_back({"^generator", std::make_unique<Adam>(layout, AdamOptions{}), constant_rate(1e-4)});
///     groups.push_back({"^discriminator", std::make_unique<Sgd>(), constant_rate(1e-3)});
///     Trainer trainer(model, std::make_unique<OptimizerGroups>(layout, std::move(groups)), ...);
///
/// Its slots are those of all groups by name. A group's schedule counts the updates of the training.
class OptimizerGroups final : public Optimizer {
 public:
  /// Throws `kInvalidArgument` for a pattern that is no regular expression, a group without an optimizer or parameters,
  /// and a parameter without a group; names them.
  OptimizerGroups(const ParameterLayout& layout, std::vector<OptimizerGroup> groups);

  std::string describe() const override;
  std::span<const std::string_view> slot_names() const override { return slot_names_; }
  /// Of all groups, when one of them has a schedule of its own.
  std::vector<GroupRate> learning_rates(const UpdateStep& step) const override;
  bool layerwise() const override;
  void update(const UpdateRange& range, const UpdateStep& step, const UpdateBuffers& buffers) const override;
  LayerSquares direction(const UpdateRange& range, const UpdateStep& step, const UpdateBuffers& buffers) const override;
  void apply(const UpdateRange& range, const UpdateStep& step, const UpdateBuffers& buffers,
             const LayerSquares& squares) const override;

 private:
  static double rate_of(const OptimizerGroup& group, const UpdateStep& step);
  template <typename Call>
  auto with_group(const UpdateRange& range, const UpdateStep& step, const UpdateBuffers& buffers,
                  const Call& call) const;

  std::vector<OptimizerGroup> groups_;
  std::vector<size_t> group_of_;  // by parameter
  std::vector<std::string_view> slot_names_;
  std::vector<std::vector<size_t>> slots_;  // by group: its slots' places in slot_names_
};

}  // namespace millrace

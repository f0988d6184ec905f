#include "millrace/trainer/optimizers/optimizer_groups.h"

#include <algorithm>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/name_pattern.h"

namespace millrace {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw ErrorException(ErrorCode::kInvalidArgument, message); }

}  // namespace

OptimizerGroups::OptimizerGroups(const ParameterLayout& layout, std::vector<OptimizerGroup> groups)
    : groups_(std::move(groups)), group_of_(layout.parameters().size(), groups_.size()) {
  for (size_t group = 0; group < groups_.size(); ++group) {
    const std::string& name = groups_[group].parameters;
    if (!groups_[group].optimizer) refuse(fmt::format("the group of parameters '{}' has no optimizer", name));
    const NamePattern pattern("group", name);
    bool found = false;
    bool used = false;
    for (size_t id = 0; id < group_of_.size(); ++id) {
      if (!pattern.matches(layout.parameters()[id])) continue;
      found = true;
      if (group_of_[id] < groups_.size()) continue;
      group_of_[id] = group;
      used = true;
    }
    pattern.need_match(found);
    if (!used) pattern.refuse("matches only parameters of groups before it");
    std::vector<size_t>& slots = slots_.emplace_back();
    for (const std::string_view slot : groups_[group].optimizer->slot_names()) {
      const auto there = std::ranges::find(slot_names_, slot);
      slots.push_back(static_cast<size_t>(there - slot_names_.begin()));
      if (there == slot_names_.end()) slot_names_.push_back(slot);
    }
  }
  const auto without = std::ranges::find(group_of_, groups_.size());
  if (without == group_of_.end()) return;
  refuse(fmt::format("parameter '{}' belongs to no group",
                     layout.parameters()[static_cast<size_t>(without - group_of_.begin())].name));
}

std::string OptimizerGroups::describe() const {
  std::string text;
  for (const OptimizerGroup& group : groups_) {
    text += fmt::format("{}'{}': {}", text.empty() ? "" : ", ", group.parameters, group.optimizer->describe());
    if (group.schedule) text += " at " + group.schedule->describe();
  }
  return fmt::format("groups({})", text);
}

bool OptimizerGroups::layerwise() const {
  return std::ranges::any_of(groups_, [](const OptimizerGroup& group) { return group.optimizer->layerwise(); });
}

double OptimizerGroups::rate_of(const OptimizerGroup& group, const UpdateStep& step) {
  return group.schedule ? group.schedule->learning_rate(step.number - 1) : step.learning_rate;
}

std::vector<GroupRate> OptimizerGroups::learning_rates(const UpdateStep& step) const {
  if (std::ranges::none_of(groups_, [](const OptimizerGroup& group) { return group.schedule != nullptr; })) return {};
  std::vector<GroupRate> rates;
  for (const OptimizerGroup& group : groups_) {
    rates.push_back({.parameters = group.parameters, .learning_rate = rate_of(group, step)});
  }
  return rates;
}

// Calls `call` with the range's optimizer, its step and its slots.
template <typename Call>
auto OptimizerGroups::with_group(const UpdateRange& range, const UpdateStep& step, const UpdateBuffers& buffers,
                                 const Call& call) const {
  const size_t index = group_of_[static_cast<size_t>(range.parameter)];
  const OptimizerGroup& group = groups_[index];
  std::vector<float*> slots;
  for (const size_t slot : slots_[index]) slots.push_back(buffers.slots[slot]);
  UpdateStep own = step;
  own.learning_rate = rate_of(group, step);
  return call(*group.optimizer, own,
              UpdateBuffers{.weights = buffers.weights, .gradients = buffers.gradients, .slots = slots});
}

void OptimizerGroups::update(const UpdateRange& range, const UpdateStep& step, const UpdateBuffers& buffers) const {
  with_group(range, step, buffers, [&](const Optimizer& optimizer, const UpdateStep& own, const UpdateBuffers& there) {
    optimizer.update(range, own, there);
  });
}

LayerSquares OptimizerGroups::direction(const UpdateRange& range, const UpdateStep& step,
                                        const UpdateBuffers& buffers) const {
  return with_group(range, step, buffers,
                    [&](const Optimizer& optimizer, const UpdateStep& own, const UpdateBuffers& there) {
                      return optimizer.layerwise() ? optimizer.direction(range, own, there) : LayerSquares{};
                    });
}

void OptimizerGroups::apply(const UpdateRange& range, const UpdateStep& step, const UpdateBuffers& buffers,
                            const LayerSquares& squares) const {
  with_group(range, step, buffers, [&](const Optimizer& optimizer, const UpdateStep& own, const UpdateBuffers& there) {
    if (optimizer.layerwise()) {
      optimizer.apply(range, own, there, squares);
    } else {
      optimizer.update(range, own, there);
    }
  });
}

}  // namespace millrace

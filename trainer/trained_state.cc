#include "millrace/trainer/trained_state.h"

#include <algorithm>
#include <utility>

#include "millrace/trainer/name_pattern.h"

namespace millrace {

TrainedState::TrainedState(const ParameterLayout& layout, const Optimizer& optimizer, const std::string& frozen)
    : trainable(layout.parameters().size(), 1), weights(layout.size()) {
  for (size_t slot = 0; slot < optimizer.slot_names().size(); ++slot) slots.emplace_back(layout.size());
  if (frozen.empty()) return;
  const NamePattern pattern("frozen", frozen);
  for (size_t id = 0; id < trainable.size(); ++id) trainable[id] = pattern.matches(layout.parameters()[id]) ? 0 : 1;
  pattern.need_match(std::ranges::count(trainable, 0) > 0);
  if (std::ranges::count(trainable, 1) == 0) pattern.refuse("matches every parameter; nothing is left to train");
}

int64_t TrainedState::num_trained(const ParameterLayout& layout) const {
  int64_t count = 0;
  for (size_t id = 0; id < trainable.size(); ++id) {
    if (trainable[id] != 0) count += layout.parameters()[id].size;
  }
  return count;
}

std::optional<std::vector<int>> TrainedState::trainable_ids() const {
  if (std::ranges::count(trainable, 0) == 0) return std::nullopt;
  std::vector<int> ids;
  for (size_t id = 0; id < trainable.size(); ++id) {
    if (trainable[id] != 0) ids.push_back(static_cast<int>(id));
  }
  return ids;
}

void TrainedState::take_rule_of(TrainedState other) {
  trainable = std::move(other.trainable);
  slots = std::move(other.slots);
}

}  // namespace millrace

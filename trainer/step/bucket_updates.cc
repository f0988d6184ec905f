#include "millrace/trainer/step/bucket_updates.h"

#include <algorithm>
#include <utility>

namespace millrace {

BucketUpdates::BucketUpdates(const Optimizer& optimizer, TrainedState& state, const ParameterLayout& layout,
                             std::span<const Bucket> buckets, StepWatchdog& watchdog)
    : optimizer_(optimizer),
      state_(state),
      buckets_(buckets),
      watchdog_(watchdog),
      squares_(buckets.size()),
      whole_layers_(layout.parameters().size()) {
  for (const Bucket& bucket : buckets_) ranges_.push_back(ranges_of(layout, bucket));
  for (FlatBuffer& slot : state_.slots) slot_data_.push_back(slot.data());
}

void BucketUpdates::begin(std::vector<UpdateStep> updates, float* gradients) {
  updates_ = std::move(updates);
  gradients_ = gradients;
  undirected_.store(static_cast<int>(buckets_.size()), std::memory_order_relaxed);
}

bool BucketUpdates::find_direction(int bucket) noexcept {
  const auto index = static_cast<size_t>(bucket);
  watchdog_.update_begins(bucket);
  squares_[index].clear();
  try {
    for (const UpdateRange& range : ranges_[index]) {
      squares_[index].push_back(optimizer_.direction(range, update_of(index), buffers()));
    }
  } catch (...) {
    keep_error();
  }
  watchdog_.update_waits(bucket);  // for the other directions
  if (undirected_.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
  {
    const std::lock_guard lock(error_mutex_);
    if (error_) return false;
  }
  add_directions();
  return true;
}

void BucketUpdates::add_directions() {
  std::fill(whole_layers_.begin(), whole_layers_.end(), LayerSquares{});
  for (size_t bucket = 0; bucket < ranges_.size(); ++bucket) {
    for (size_t i = 0; i < ranges_[bucket].size(); ++i) {
      LayerSquares& whole = whole_layers_[static_cast<size_t>(ranges_[bucket][i].parameter)];
      whole.weights += squares_[bucket][i].weights;
      whole.direction += squares_[bucket][i].direction;
    }
  }
}

void BucketUpdates::update(int bucket) noexcept {
  const auto index = static_cast<size_t>(bucket);
  watchdog_.update_begins(bucket);
  try {
    for (const UpdateRange& range : ranges_[index]) {
      if (layerwise()) {
        optimizer_.apply(range, update_of(index), buffers(), whole_layers_[static_cast<size_t>(range.parameter)]);
      } else {
        optimizer_.update(range, update_of(index), buffers());
      }
    }
  } catch (...) {
    keep_error();
  }
  watchdog_.update_ends(bucket);
}

void BucketUpdates::keep_error() noexcept {
  Error error = current_exception_as_error();
  const std::lock_guard lock(error_mutex_);
  if (!error_) error_ = std::move(error);
}

std::optional<Error> BucketUpdates::take_error() {
  const std::lock_guard lock(error_mutex_);
  return std::exchange(error_, std::nullopt);
}

}  // namespace millrace

#include "trainer/all_reduce.h"

#include <algorithm>

namespace millrace {

AllReduce::AllReduce(const ParameterLayout& layout, int num_replicas)
    : layout_(layout), num_replicas_(num_replicas), leaves_(static_cast<size_t>(num_replicas)) {
  add_node(0, num_replicas, -1);
  first_came_ = std::make_unique<std::atomic<uint8_t>[]>(nodes_.size() * layout.buckets().size());
  added_ = std::make_unique<std::atomic<int>[]>(static_cast<size_t>(num_replicas));
  buffers_.resize(static_cast<size_t>(num_replicas));
}

int AllReduce::add_node(int begin, int end, int parent) {
  const int node = static_cast<int>(nodes_.size());
  nodes_.push_back({.begin = begin, .end = end, .parent = parent, .right_begin = end});
  if (end - begin == 1) {
    leaves_[static_cast<size_t>(begin)] = node;
    return node;
  }
  const int middle = begin + (end - begin + 1) / 2;
  nodes_[static_cast<size_t>(node)].right_begin = middle;
  add_node(begin, middle, node);
  add_node(middle, end, node);
  return node;
}

void AllReduce::begin(int num_active) {
  num_active_ = num_active;
  for (size_t i = 0; i < nodes_.size() * layout_.buckets().size(); ++i)
    first_came_[i].store(0, std::memory_order_relaxed);
  for (int replica = 0; replica < num_replicas_; ++replica) {
    added_[static_cast<size_t>(replica)].store(0, std::memory_order_relaxed);
  }
}

std::span<float> AllReduce::take_buffer(int replica) {
  FlatBuffer buffer;
  {
    const std::lock_guard lock(mutex_);
    peak_buffers_ = std::max(peak_buffers_, ++live_);
    if (!free_.empty()) {
      buffer = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (buffer.data() == nullptr) buffer = FlatBuffer(layout_.size());
  FlatBuffer& place = buffers_[static_cast<size_t>(replica)];
  place = std::move(buffer);
  return place.span();
}

bool AllReduce::arrive(int replica, int bucket) {
  const Bucket& range = layout_.buckets()[static_cast<size_t>(bucket)];
  const auto num_buckets = static_cast<int>(layout_.buckets().size());
  int node = nodes_[static_cast<size_t>(leaves_[static_cast<size_t>(replica)])].parent;
  for (; node >= 0; node = nodes_[static_cast<size_t>(node)].parent) {
    const Node& here = nodes_[static_cast<size_t>(node)];
    // The active replicas are the first ones: a node whose right side is empty passes its left child on.
    if (here.right_begin >= num_active_) continue;
    const size_t flag = static_cast<size_t>(node) * static_cast<size_t>(num_buckets) + static_cast<size_t>(bucket);
    if (first_came_[flag].exchange(1, std::memory_order_acq_rel) == 0) return false;
    float* __restrict left = buffers_[static_cast<size_t>(here.begin)].data();
    const float* __restrict right = buffers_[static_cast<size_t>(here.right_begin)].data();
    for (int64_t i = range.begin; i < range.end; ++i) left[i] += right[i];
    if (added_[static_cast<size_t>(here.right_begin)].fetch_add(1, std::memory_order_acq_rel) + 1 == num_buckets) {
      give_back(std::move(buffers_[static_cast<size_t>(here.right_begin)]));
    }
  }
  return true;
}

void AllReduce::give_back(FlatBuffer buffer) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(buffer));
  --live_;
}

void AllReduce::end() {
  for (FlatBuffer& buffer : buffers_) {
    if (buffer.data() != nullptr) give_back(std::move(buffer));
  }
}

double sum_of_squares(std::span<const float> values) {
  // Sixteen partial sums: independent chains that the compiler can keep in vectors.
  double sums[16] = {};
  const size_t whole = values.size() / 16 * 16;
  for (size_t i = 0; i < whole; i += 16) {
    for (size_t lane = 0; lane < 16; ++lane) {
      const auto value = static_cast<double>(values[i + lane]);
      sums[lane] += value * value;
    }
  }
  for (size_t i = whole; i < values.size(); ++i) sums[i - whole] += static_cast<double>(values[i]) * values[i];
  for (size_t half = 8; half > 0; half /= 2) {
    for (size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

}  // namespace millrace

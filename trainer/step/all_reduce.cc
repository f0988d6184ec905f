#include "millrace/trainer/step/all_reduce.h"

#include <algorithm>

namespace millrace {
namespace {

// A group in the order of the tree: (0 + 1) + (2 + 3), or what is left of it when there are fewer.
template <int kCount, typename T>
T group_sum(const T* const* group, int64_t i) {
  if constexpr (kCount == 1) return group[0][i];
  if constexpr (kCount == 2) return group[0][i] + group[1][i];
  if constexpr (kCount == 3) return (group[0][i] + group[1][i]) + group[2][i];
  if constexpr (kCount == 4) return (group[0][i] + group[1][i]) + (group[2][i] + group[3][i]);
}

// out[i] = ((group_sum(i) + further[0][i]) + further[1][i]) + ...; `out` may be one of the inputs.
template <int kCount, typename T>
void sum_group_into(T* out, const T* const* group, std::span<T* const> further, int64_t size) {
  constexpr int64_t kBlock = 64;  // in registers while the inputs pass
  T sum[kBlock];
  const auto add_block = [&](int64_t begin, int64_t count) {
    for (int64_t i = 0; i < count; ++i) sum[i] = group_sum<kCount>(group, begin + i);
    for (const T* in : further) {
      for (int64_t i = 0; i < count; ++i) sum[i] += in[begin + i];
    }
    for (int64_t i = 0; i < count; ++i) out[begin + i] = sum[i];
  };
  int64_t begin = 0;
  for (; begin + kBlock <= size; begin += kBlock) add_block(begin, kBlock);
  if (begin < size) add_block(begin, size - begin);
}

}  // namespace

template <typename T>
AllReduce<T>::AllReduce(int64_t size, std::span<const Bucket> buckets, int num_replicas)
    : size_(size), ranges_(buckets), num_replicas_(num_replicas), groups_(static_cast<size_t>(num_replicas)) {
  add_node(0, num_replicas, -1);
  came_ = std::make_unique<std::atomic<uint8_t>[]>(nodes_.size() * ranges_.size());
  uses_left_ = std::make_unique<std::atomic<int>[]>(static_cast<size_t>(num_replicas));
  buffers_.resize(static_cast<size_t>(num_replicas));
}

template <typename T>
int AllReduce<T>::add_node(int begin, int end, int parent) {
  const int node = static_cast<int>(nodes_.size());
  nodes_.push_back({.begin = begin, .end = end, .parent = parent, .right_begin = end});
  if (end - begin <= kGroup) {
    for (int replica = begin; replica < end; ++replica) groups_[static_cast<size_t>(replica)] = node;
    return node;
  }
  const int middle = begin + (end - begin + 1) / 2;
  nodes_[static_cast<size_t>(node)].right_begin = middle;
  add_node(begin, middle, node);
  add_node(middle, end, node);
  return node;
}

template <typename T>
void AllReduce<T>::begin(int num_active) {
  num_active_ = num_active;
  const int num_uses = static_cast<int>(ranges_.size()) + 1;
  for (size_t i = 0; i < nodes_.size() * ranges_.size(); ++i) came_[i].store(0, std::memory_order_relaxed);
  for (int replica = 0; replica < num_replicas_; ++replica) {
    uses_left_[static_cast<size_t>(replica)].store(num_uses, std::memory_order_relaxed);
  }
}

template <typename T>
std::span<T> AllReduce<T>::take_buffer(int replica) {
  FlatValues<T> buffer;
  {
    const std::lock_guard lock(mutex_);
    peak_buffers_ = std::max(peak_buffers_, ++live_);
    if (!free_.empty()) {
      buffer = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (buffer.data() == nullptr) buffer = FlatValues<T>(size_);
  FlatValues<T>& place = buffers_[static_cast<size_t>(replica)];
  place = std::move(buffer);
  return place.span();
}

template <typename T>
bool AllReduce<T>::arrive(int replica, int bucket) {
  const auto came = [&](int node) -> std::atomic<uint8_t>& {
    return came_[static_cast<size_t>(node) * ranges_.size() + static_cast<size_t>(bucket)];
  };
  const int group = groups_[static_cast<size_t>(replica)];
  const Node& lowest = nodes_[static_cast<size_t>(group)];
  Addends addends{.first = lowest.begin, .count = std::min(lowest.end, num_active_) - lowest.begin};
  if (came(group).fetch_add(1, std::memory_order_acq_rel) + 1 < addends.count) return false;
  for (int node = lowest.parent; node >= 0; node = nodes_[static_cast<size_t>(node)].parent) {
    // The active replicas are the first ones: a node whose right side is empty passes its left child on.
    if (nodes_[static_cast<size_t>(node)].right_begin >= num_active_) continue;
    // Nobody reads the sum so far unless the other child is still to come, so it need not be written down before that.
    if (came(node).load(std::memory_order_acquire) == 0) {
      add_up(bucket, addends);
      if (came(node).exchange(1, std::memory_order_acq_rel) == 0) return false;
    }
    addends.nodes[static_cast<size_t>(addends.num_nodes++)] = node;
  }
  add_up(bucket, addends);
  return true;
}

// In one pass, whatever the number of nodes: `((group + first) + second) + ...`, which is what adding left and right
// child of each gives, as a + b is b + a.
template <typename T>
void AllReduce<T>::add_up(int bucket, Addends& addends) {
  if (addends.count == 1 && addends.num_nodes == 0) return;
  const Bucket& range = ranges_[static_cast<size_t>(bucket)];
  const int64_t size = range.end - range.begin;
  const auto values = [&](int replica) { return buffers_[static_cast<size_t>(replica)].data() + range.begin; };
  std::array<const T*, kGroup> group{};
  for (int i = 0; i < addends.count; ++i) group[static_cast<size_t>(i)] = values(addends.first + i);
  std::array<T*, kMostDepth> further{};  // of each node the child that is not the sum below it
  int sum = addends.first;               // the replica in whose buffer that is
  for (int i = 0; i < addends.num_nodes; ++i) {
    const Node& node = nodes_[static_cast<size_t>(addends.nodes[static_cast<size_t>(i)])];
    further[static_cast<size_t>(i)] = values(sum == node.begin ? node.right_begin : node.begin);
    sum = node.begin;
  }
  const std::span<T* const> others(further.data(), static_cast<size_t>(addends.num_nodes));
  switch (addends.count) {
    case 1: sum_group_into<1, T>(values(sum), group.data(), others, size); break;
    case 2: sum_group_into<2, T>(values(sum), group.data(), others, size); break;
    case 3: sum_group_into<3, T>(values(sum), group.data(), others, size); break;
    default: sum_group_into<4, T>(values(sum), group.data(), others, size);
  }
  for (int i = 1; i < addends.count; ++i) one_use_less(addends.first + i);
  for (int i = 0; i < addends.num_nodes; ++i) {
    one_use_less(nodes_[static_cast<size_t>(addends.nodes[static_cast<size_t>(i)])].right_begin);
  }
  addends = {.first = sum, .count = 1};
}

template <typename T>
void AllReduce<T>::leave(int replica) {
  one_use_less(replica);
}

template <typename T>
void AllReduce<T>::one_use_less(int replica) {
  const auto index = static_cast<size_t>(replica);
  if (uses_left_[index].fetch_sub(1, std::memory_order_acq_rel) == 1) give_back(std::move(buffers_[index]));
}

template <typename T>
void AllReduce<T>::give_back(FlatValues<T> buffer) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(buffer));
  --live_;
}

template <typename T>
void AllReduce<T>::end() {
  for (FlatValues<T>& buffer : buffers_) {
    if (buffer.data() != nullptr) give_back(std::move(buffer));
  }
}

template class AllReduce<float>;
template class AllReduce<double>;

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

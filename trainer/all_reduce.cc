#include "trainer/all_reduce.h"

#include <algorithm>

namespace millrace {
namespace {

// out[i] = ((in[0][i] + in[1][i]) + in[2][i]) + ...; `out` may be one of them.
template <typename T>
void sum_into(T* out, std::span<T* const> in, int64_t size) {
  constexpr int64_t kBlock = 64;  // in registers while the inputs pass
  T sum[kBlock];
  for (int64_t begin = 0; begin < size; begin += kBlock) {
    const int64_t count = std::min(kBlock, size - begin);
    if (count == kBlock) {
      for (int64_t i = 0; i < kBlock; ++i) sum[i] = in[0][begin + i] + in[1][begin + i];
      for (size_t k = 2; k < in.size(); ++k) {
        for (int64_t i = 0; i < kBlock; ++i) sum[i] += in[k][begin + i];
      }
      for (int64_t i = 0; i < kBlock; ++i) out[begin + i] = sum[i];
      continue;
    }
    for (int64_t i = begin; i < size; ++i) {
      T value = in[0][i];
      for (size_t k = 1; k < in.size(); ++k) value += in[k][i];
      out[i] = value;
    }
  }
}

}  // namespace

template <typename T>
AllReduce<T>::AllReduce(int64_t size, std::span<const Bucket> buckets, int num_replicas)
    : size_(size), ranges_(buckets), num_replicas_(num_replicas), leaves_(static_cast<size_t>(num_replicas)) {
  add_node(0, num_replicas, -1);
  first_came_ = std::make_unique<std::atomic<uint8_t>[]>(nodes_.size() * ranges_.size());
  uses_left_ = std::make_unique<std::atomic<int>[]>(static_cast<size_t>(num_replicas));
  buffers_.resize(static_cast<size_t>(num_replicas));
}

template <typename T>
int AllReduce<T>::add_node(int begin, int end, int parent) {
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

template <typename T>
void AllReduce<T>::begin(int num_active) {
  num_active_ = num_active;
  const int num_uses = static_cast<int>(ranges_.size()) + 1;
  for (size_t i = 0; i < nodes_.size() * ranges_.size(); ++i) first_came_[i].store(0, std::memory_order_relaxed);
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
  const auto num_buckets = ranges_.size();
  int done = leaves_[static_cast<size_t>(replica)];  // the node whose sum is in its first replica's buffer
  Addends addends;
  for (int node = nodes_[static_cast<size_t>(done)].parent; node >= 0;
       node = nodes_[static_cast<size_t>(node)].parent) {
    const Node& here = nodes_[static_cast<size_t>(node)];
    // The active replicas are the first ones: a node whose right side is empty passes its left child on.
    if (here.right_begin >= num_active_) continue;
    std::atomic<uint8_t>& first_came =
        first_came_[static_cast<size_t>(node) * num_buckets + static_cast<size_t>(bucket)];
    // Nobody reads the sum so far unless the other child is still to come, so it need not be written down before that.
    if (first_came.load(std::memory_order_acquire) == 0) {
      add_up(done, bucket, addends);
      if (first_came.exchange(1, std::memory_order_acq_rel) == 0) return false;
    }
    addends.nodes[static_cast<size_t>(addends.count++)] = node;
    done = node;
  }
  add_up(done, bucket, addends);
  return true;
}

// In one pass, whatever the number of nodes: `((own + first) + second) + ...`, which is what adding left and right
// child of each gives, as a + b is b + a.
template <typename T>
void AllReduce<T>::add_up(int done, int bucket, Addends& addends) {
  if (addends.count == 0) return;
  const Bucket& range = ranges_[static_cast<size_t>(bucket)];
  const int64_t size = range.end - range.begin;
  const auto values = [&](int replica) { return buffers_[static_cast<size_t>(replica)].data() + range.begin; };
  const int first_node = addends.nodes[0];
  // The buffers that hold the children of these nodes: two of the lowest, and of each further one that which is not the
  // sum below it.
  std::array<T*, kMostDepth + 1> in{};
  const Node& lowest = nodes_[static_cast<size_t>(first_node)];
  in[0] = values(lowest.begin);
  in[1] = values(lowest.right_begin);
  for (int i = 1; i < addends.count; ++i) {
    const Node& node = nodes_[static_cast<size_t>(addends.nodes[static_cast<size_t>(i)])];
    const Node& below = nodes_[static_cast<size_t>(addends.nodes[static_cast<size_t>(i) - 1])];
    in[static_cast<size_t>(i) + 1] = values(below.begin == node.begin ? node.right_begin : node.begin);
  }
  sum_into<T>(values(nodes_[static_cast<size_t>(done)].begin), {in.data(), static_cast<size_t>(addends.count) + 1},
              size);
  for (int i = 0; i < addends.count; ++i) {
    const auto right =
        static_cast<size_t>(nodes_[static_cast<size_t>(addends.nodes[static_cast<size_t>(i)])].right_begin);
    one_use_less(static_cast<int>(right));
  }
  addends.count = 0;
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

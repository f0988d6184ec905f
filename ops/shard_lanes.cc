#include "ops/shard_lanes.h"

#include <algorithm>
#include <numeric>

#include "ops/counter_rng.h"

namespace millrace {

size_t lane_chunk_bytes(const MemoryGate& memory, size_t num_lanes, size_t most) {
  return std::clamp(static_cast<size_t>(memory.budget()) / (8 * 3 * num_lanes), kLeastChunk, most);
}

std::vector<size_t> permutation(size_t count, uint64_t seed, const Iteration& iteration) {
  std::vector<size_t> order = shard_order(count, false, seed, iteration);
  // The name of the first source that had it: equal seeds give equal orders, whatever is read.
  const CounterRng rng(seed, operator_id("tfrecord"), iteration);
  for (size_t i = count; i > 1; --i) std::swap(order[i - 1], order[uniform_below(rng.bits(i), uint64_t{i})]);
  return order;
}

std::vector<size_t> shard_order(size_t count, bool shuffle, uint64_t seed, const Iteration& iteration) {
  if (shuffle) return permutation(count, seed, iteration);
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  return order;
}

}  // namespace millrace

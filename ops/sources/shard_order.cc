#include "millrace/ops/sources/shard_order.h"

#include <algorithm>
#include <numeric>

#include "millrace/formats/random/counter_rng.h"

namespace millrace {

LaneReads lane_reads(const MemoryGate& memory, size_t num_lanes, const LaneReads& wanted) {
  const size_t bytes = static_cast<size_t>(memory.budget()) / (8 * num_lanes);  // of a lane
  const size_t chunk_bytes = std::clamp(bytes / (wanted.read_ahead + 1), kLeastChunk, wanted.chunk_bytes);
  return {chunk_bytes, std::min(wanted.read_ahead, std::max<size_t>(bytes / chunk_bytes, 3) - 1), bytes};
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

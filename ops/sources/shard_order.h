#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "millrace/formats/columnar/iteration.h"
#include "millrace/formats/columnar/memory_gate.h"

namespace millrace {

/// The longest record for which there is room in a memory budget: it is in a chunk of its shard, and then in a block,
/// and then in a batch, while the next one comes.
[[nodiscard]] inline uint64_t largest_record(const MemoryGate& memory) {
  return static_cast<uint64_t>(memory.budget() / 4);
}

/// The least that a lane reads of its shard at a time.
constexpr size_t kLeastChunk = 16 << 10;

/// How a lane reads its shard: bytes at a time, how many such chunks ahead of the one that is walked, and what chunks
/// may come to where the storage wants more of them (`File::advice`).
struct LaneReads {
  size_t chunk_bytes;
  size_t read_ahead;
  size_t most_bytes = 0;
};
/// The same, `num_lanes` lanes together in an eighth of the budget: with smaller chunks, and where these cannot be
/// smaller, with fewer than are wanted, but not fewer than two.
[[nodiscard]] LaneReads lane_reads(const MemoryGate& memory, size_t num_lanes, const LaneReads& wanted);

/// The order of `count` things in one iteration: a uniform permutation that depends on the seed and the iteration only
/// (Fisher and Yates, counter-based numbers).
[[nodiscard]] std::vector<size_t> permutation(size_t count, uint64_t seed, const Iteration& iteration);
/// The same, or as they stand.
[[nodiscard]] std::vector<size_t> shard_order(size_t count, bool shuffle, uint64_t seed, const Iteration& iteration);

}  // namespace millrace

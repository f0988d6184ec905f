#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "benchmarks/floor/schedule.h"

namespace millrace {

/// Who reads what, and where it is put, to deliver a schedule in its order with as little memory in use as possible:
/// nothing of it is decided while a pass is timed.
///
/// The batches are cut into windows. A chunk (neighbouring records of a shard, 256 KiB, 64 KiB of a compressed one, or
/// one record) is read in the window of the first batch that needs it. Memory is used again `kWindowsApart` windows
/// after it was last needed, the latest one first, so that it is in the caches.
struct ReadPlan {
  static constexpr size_t kNoRow = SIZE_MAX;
  static constexpr uint32_t kWindowsApart = 3;

  struct Record {
    uint32_t record;  ///< in its shard
    size_t row;       ///< of the schedule; kNoRow: read and left out
    uint64_t place;   ///< where the payload is copied to; of a plan that copies
  };
  struct Chunk {
    uint32_t shard;
    uint32_t stream;      ///< one pass over one shard; compressed ones are unpacked from their beginning
    uint32_t index;       ///< in its stream
    uint64_t begin, end;  ///< bytes of the shard, unpacked
    uint64_t place;       ///< where it is read to; of a plan that does not copy
    size_t first_record;  ///< in `records`
    size_t num_records;
  };
  struct Window {
    size_t first_chunk, num_chunks;
    size_t first_batch, num_batches;
  };

  std::vector<Window> windows;
  std::vector<Chunk> chunks;  ///< by window
  std::vector<Record> records;
  uint32_t num_streams = 0;
  uint64_t largest_chunk = 0;
  uint64_t memory = 0;  ///< bytes that the places are in

  /// `copies`: payloads are copied out of the chunk, as rows that wait in a shuffle are; otherwise they stay where they
  /// were read.
  ReadPlan(const Schedule& schedule, bool copies, int threads);
};

}  // namespace millrace

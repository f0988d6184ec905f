#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/formats/records/skipped_region.h"

namespace millrace {

/// What one operator of a running pipeline has done so far.
struct StageReport {
  std::string name = {};                  ///< `2:shuffle`: number in the plan, from the source, and operator
  int segment = 0;                        ///< operators of one segment share its waits and its queue
  std::vector<int> inputs = {};           ///< segments that this one takes blocks from
  bool parallel = false;                  ///< run by any number of workers at once, as maps are
  int copies = 1;                         ///< lanes that run side by side
  int64_t rows = 0;                       ///< rows that came out, without errors
  int64_t bytes = 0;                      ///< their bytes
  int64_t errors = 0;                     ///< error elements that came out or, of `ignore_errors`, were dropped
  int64_t lost_bytes = 0;                 ///< bytes of shards that gave no records because of these errors
  double busy_seconds = 0;                ///< time worked, over all threads, without its inputs
  double waiting_for_input_seconds = 0;   ///< the segment's serial chain had nothing to take
  double waiting_for_output_seconds = 0;  ///< the segment's ring was full
  int64_t queue = 0;                      ///< blocks in the segment's ring, of all copies
  int64_t queue_slots = 0;                ///< places there now: fewer while blocks are large (LargeBlockLimit)
  int64_t queue_high_water = 0;           ///< most blocks in the ring, of one copy
};

/// What a pipeline has done since `start()`. Waits that still go on are counted up to now.
struct Statistics {
  std::vector<StageReport> stages = {};  ///< from the source to the consumer
  double wall_seconds = 0;
  double consumer_waiting_seconds = 0;  ///< time the caller spent waiting in `next()`, asleep or at work there
  int threads = 0;                      ///< size of the arena
  int distinct_workers = 0;       ///< threads that really ran bodies; whoever has the caller's reserved slot is one
  int64_t buffer_bytes = 0;       ///< bytes in buffers that are in use now
  int64_t peak_buffer_bytes = 0;  ///< the most that were in use at a time
  int64_t memory_budget = 0;      ///< bytes: `StartOptions::memory_budget`
  int64_t fresh_buffers = 0;      ///< buffers made from fresh memory; constant in steady state
  SkipCounts skipped = {};        ///< left out of damaged shards, up to the last element that was delivered

  /// Time worked, over all stages and threads.
  double busy_seconds() const;
  /// Whether the workers had work for three quarters of the time, and no serial chain for 85%: more of them would help.
  bool limited_by_workers() const;
  /// The operator that limits the throughput, or `consumer`, or `storage`. The consumer when it waits in `next()` for
  /// less than 30% of the time. The busiest operator where the workers are the limit. Else, from the last segment
  /// towards the source: the busiest map of a body whose ring is full for over 30% of the time, or the busiest operator
  /// of a chain that waits for its input for less than half of it. Storage when every chain waits.
  std::string bottleneck() const;
  /// A table for people.
  std::string to_string() const;
};

}  // namespace millrace

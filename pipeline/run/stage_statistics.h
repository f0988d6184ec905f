#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "millrace/formats/columnar/block.h"
#include "millrace/pipeline/trace.h"

namespace millrace {

/// The steady clock in nanoseconds: above 0, so that 0 can stand for none.
inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// The error elements of a block, and the bytes of shards that were lost to them. Notes of what was left out are none.
struct ErrorCount {
  explicit ErrorCount(const Block& block) {
    for (const ElementError& entry : block.errors()) {
      if (entry.is_note()) continue;
      ++errors;
      lost_bytes += entry.error->lost_bytes;
    }
  }
  int64_t errors = 0;
  int64_t lost_bytes = 0;
};

/// Live counters of one operator of a running pipeline. Written by bodies with relaxed atomics, read by `stats()`.
struct StageStatistics {
  std::string name;
  std::string arguments;  ///< of a map, as `explain()` prints them: which function of the user it is
  TraceName trace;
  std::atomic<int64_t> rows{0};
  std::atomic<int64_t> bytes{0};
  std::atomic<int64_t> errors{0};      ///< delivered or dropped
  std::atomic<int64_t> lost_bytes{0};  ///< of these errors
  std::atomic<int64_t> inclusive_ns{
      0};  ///< for stages of a chain: time inside `next`, inputs included; maps: inside `apply`
  std::atomic<int64_t> input_ns{0};  ///< part of `inclusive_ns` spent in the inputs of the same chain

  /// A block that came out.
  void add(const Block& block) {
    rows.fetch_add(block.num_rows() - block.rows_per_element * static_cast<int64_t>(block.errors().size()),
                   std::memory_order_relaxed);
    bytes.fetch_add(block.byte_size(), std::memory_order_relaxed);
    if (block.errors().empty()) return;
    const ErrorCount delivered(block);
    errors.fetch_add(delivered.errors, std::memory_order_relaxed);
    lost_bytes.fetch_add(delivered.lost_bytes, std::memory_order_relaxed);
  }
  /// Of the errors that a map took, those that are not in what it made.
  void add_dropped(const ErrorCount& taken, const Block& made) {
    if (taken.errors == 0) return;
    const ErrorCount kept(made);
    if (taken.errors <= kept.errors) return;
    errors.fetch_add(taken.errors - kept.errors, std::memory_order_relaxed);
    lost_bytes.fetch_add(taken.lost_bytes - kept.lost_bytes, std::memory_order_relaxed);
  }
};

/// Live counters of one segment, or of all lanes of one operator together.
struct SegmentStatistics {
  std::atomic<int64_t> waiting_for_input_ns{0};   ///< the chain had answered pending; waits that have ended
  std::atomic<int64_t> waiting_for_output_ns{0};  ///< all slots were full; waits that have ended
  std::atomic<int64_t> queue{0};                  ///< blocks polled and not yet taken
  std::atomic<int64_t> queue_high_water{0};       ///< most of them, of lanes in one lane
  TraceName trace;                                ///< of `queue`

  /// One more or one less.
  void change_queue(int64_t by) {
    const int64_t before = queue.fetch_add(by, std::memory_order_relaxed);
    if (trace.trace != nullptr) [[unlikely]] {
      trace.trace->counter(trace.name, now_ns(), before + by);
    }
  }
};

inline void raise_to(std::atomic<int64_t>& high_water, int64_t value) {
  int64_t seen = high_water.load(std::memory_order_relaxed);
  while (seen < value && !high_water.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

}  // namespace millrace

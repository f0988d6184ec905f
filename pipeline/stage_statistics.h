#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

namespace millrace {

/// The steady clock in nanoseconds: above 0, so that 0 can stand for none.
inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Live counters of one operator of a running pipeline. Written by bodies with relaxed atomics, read by `stats()`.
struct StageStatistics {
  std::string name;
  std::atomic<int64_t> rows{0};
  std::atomic<int64_t> bytes{0};
  std::atomic<int64_t> inclusive_ns{
      0};  ///< for stages of a chain: time inside `next`, inputs included; maps: inside `apply`
  std::atomic<int64_t> input_ns{0};  ///< part of `inclusive_ns` spent in the inputs of the same chain

  void add(int64_t num_rows, int64_t num_bytes, int64_t ns) {
    rows.fetch_add(num_rows, std::memory_order_relaxed);
    bytes.fetch_add(num_bytes, std::memory_order_relaxed);
    inclusive_ns.fetch_add(ns, std::memory_order_relaxed);
  }
};

/// Live counters of one segment, or of all lanes of one operator together.
struct SegmentStatistics {
  std::atomic<int64_t> waiting_for_input_ns{0};   ///< the chain had answered pending; waits that have ended
  std::atomic<int64_t> waiting_for_output_ns{0};  ///< all slots were full; waits that have ended
  std::atomic<int64_t> queue_high_water{0};       ///< most blocks polled and not yet taken
};

inline void raise_to(std::atomic<int64_t>& high_water, int64_t value) {
  int64_t seen = high_water.load(std::memory_order_relaxed);
  while (seen < value && !high_water.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

}  // namespace millrace

#include "millrace/pipeline/run/large_block_limit.h"

#include <algorithm>

namespace millrace {

void LargeBlockLimit::made(int64_t bytes, int64_t nanoseconds) {
  slow_.store(nanoseconds / kSlowNanosecondsPerByte > bytes, std::memory_order_relaxed);
  bytes_.store(bytes, std::memory_order_relaxed);
}

void LargeBlockLimit::expect(int64_t bytes) { expected_.store(bytes, std::memory_order_relaxed); }

size_t LargeBlockLimit::usable(size_t all) const {
  const int64_t made = bytes_of_last();
  const int64_t last = made < 0 ? expected_.load(std::memory_order_relaxed) : made;
  if (last < kLargeBlock) return all;
  const size_t least = slow_.load(std::memory_order_relaxed) ? options_.slots_of_slow : options_.slots;
  return std::min(std::max(static_cast<size_t>(options_.bytes / last), least), all);
}

}  // namespace millrace

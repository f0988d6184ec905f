#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace millrace {

/// How long something took, many times: percentiles in constant memory, exact to 1/32.
class LatencyHistogram {
 public:
  void add(int64_t nanoseconds);
  int64_t count() const { return count_; }
  int64_t max_ns() const { return max_; }
  /// The time that `share` (0 to 1) of all did not exceed, as the upper end of its class; 0 when there are none.
  int64_t percentile_ns(double share) const;

 private:
  // Classes of equal width in each power of two.
  static constexpr int kStepBits = 5;
  static constexpr size_t kClasses = (64 - kStepBits) << kStepBits;
  static size_t class_of(uint64_t nanoseconds);
  static uint64_t end_of(size_t number);

  std::array<int64_t, kClasses> counts_{};
  int64_t count_ = 0;
  int64_t max_ = 0;
};

}  // namespace millrace

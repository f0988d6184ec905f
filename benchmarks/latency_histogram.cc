#include "benchmarks/latency_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace millrace {

size_t LatencyHistogram::class_of(uint64_t nanoseconds) {
  if (nanoseconds < (1U << kStepBits)) return nanoseconds;
  const int shift = std::bit_width(nanoseconds) - 1 - kStepBits;
  return (static_cast<size_t>(shift) << kStepBits) + (nanoseconds >> shift);
}

uint64_t LatencyHistogram::end_of(size_t number) {
  if (number < (2U << kStepBits)) return number;
  const size_t shift = (number >> kStepBits) - 1;
  return (((number & ((1U << kStepBits) - 1)) + (1U << kStepBits) + 1) << shift) - 1;
}

void LatencyHistogram::add(int64_t nanoseconds) {
  ++counts_[std::min(kClasses - 1, class_of(static_cast<uint64_t>(std::max<int64_t>(0, nanoseconds))))];
  ++count_;
  max_ = std::max(max_, nanoseconds);
}

int64_t LatencyHistogram::percentile_ns(double share) const {
  const auto wanted = std::max<int64_t>(1, static_cast<int64_t>(std::ceil(share * static_cast<double>(count_))));
  int64_t seen = 0;
  for (size_t i = 0; i < kClasses; ++i) {
    seen += counts_[i];
    if (seen >= wanted) return std::min(max_, static_cast<int64_t>(end_of(i)));
  }
  return max_;
}

}  // namespace millrace

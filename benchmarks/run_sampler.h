#pragma once

#include <chrono>
#include <vector>

#include "benchmarks/bench_result.h"
#include "millrace/pipeline/pipeline.h"

namespace millrace {

/// Looks at a running pipeline every few milliseconds while somebody takes its batches: at most 200 samples, whose
/// distance doubles when there are more.
class RunSampler {
 public:
  using Clock = std::chrono::steady_clock;

  explicit RunSampler(const Pipeline& pipeline) : pipeline_(pipeline) {}

  /// The measurement begins; so does the first sample.
  void begin();
  /// Takes a sample when it is time to.
  void look(int64_t records, int64_t bytes) {
    if (Clock::now() >= next_) take(records, bytes);
  }
  /// Takes one now.
  void take(int64_t records, int64_t bytes);
  const std::vector<RunSample>& samples() const { return samples_; }

 private:
  const Pipeline& pipeline_;
  Clock::time_point begin_;
  Clock::time_point next_ = Clock::time_point::max();
  Clock::duration distance_ = std::chrono::milliseconds(10);
  double cpu_before_ = 0;
  std::vector<RunSample> samples_;
};

}  // namespace millrace

#include "benchmarks/run_sampler.h"

#include "benchmarks/process_usage.h"

namespace millrace {

void RunSampler::begin() {
  begin_ = Clock::now();
  cpu_before_ = process_usage().cpu_seconds;
  take(0, 0);
}

void RunSampler::take(int64_t records, int64_t bytes) {
  constexpr size_t kMostSamples = 200;
  if (samples_.size() >= kMostSamples) {
    for (size_t i = 1; 2 * i < samples_.size(); ++i) samples_[i] = std::move(samples_[2 * i]);
    samples_.resize((samples_.size() + 1) / 2);
    distance_ *= 2;
  }
  const ProcessUsage usage = process_usage();
  Statistics statistics = pipeline_.stats();
  const Clock::time_point now = Clock::now();
  samples_.push_back({.seconds = std::chrono::duration<double>(now - begin_).count(),
                      .records = records,
                      .bytes = bytes,
                      .cpu_seconds = usage.cpu_seconds - cpu_before_,
                      .rss_mb = usage.rss_mb,
                      .consumer_waiting_seconds = statistics.consumer_waiting_seconds,
                      .stages = std::move(statistics.stages)});
  next_ = now + distance_;
}

}  // namespace millrace

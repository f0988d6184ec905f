#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace millrace::test {

/// Holds every thread that passes until so many are here at once, or a minute has gone by since it was made; then all
/// pass. In the body of a pipeline or a replica it lets every thread of a test really take part, since one that waits
/// here cannot come a second time; `most()` says whether they did.
class Gathering {
 public:
  explicit Gathering(int num_threads) : num_threads_(num_threads) {}
  void pass() {
    const int here = ++inside_;
    int seen = most_;
    while (seen < here && !most_.compare_exchange_weak(seen, here)) {
    }
    while (most_ < num_threads_ && std::chrono::steady_clock::now() < deadline_) std::this_thread::yield();
    --inside_;
  }
  /// Threads that were here at once.
  int most() const { return most_; }

 private:
  const int num_threads_;
  const std::chrono::steady_clock::time_point deadline_ = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  std::atomic<int> inside_{0};
  std::atomic<int> most_{0};
};

}  // namespace millrace::test

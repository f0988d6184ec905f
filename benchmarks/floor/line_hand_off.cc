#include "benchmarks/floor/line_hand_off.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sched.h>

#include "benchmarks/machine_description.h"
#include "millrace/formats/columnar/prefetch_lines.h"

namespace millrace {
namespace {

void stay_on(int core) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(core, &only);
  ::pthread_setaffinity_np(::pthread_self(), sizeof only, &only);
}

// Two threads hand a line to and fro. The fastest of some trials: in others one of the threads has waited for its core.
double between(int first, int second) {
  using Clock = std::chrono::steady_clock;
  constexpr int kTrials = 5;
  constexpr int kRounds = 1000;
  alignas(kCacheLine) std::atomic<int> line{0};
  double fastest = std::numeric_limits<double>::max();
  const auto answer = [&line](int number) {
    while (line.load(std::memory_order_acquire) != number) {
    }
    line.store(number + 1, std::memory_order_release);
  };
  std::thread other([&] {
    stay_on(second);
    for (int i = 0; i < kTrials * kRounds; ++i) answer(2 * i + 1);
  });
  std::thread one([&] {
    stay_on(first);
    for (int trial = 0; trial < kTrials; ++trial) {
      const Clock::time_point begin = Clock::now();
      for (int i = trial * kRounds; i < (trial + 1) * kRounds; ++i) answer(2 * i);
      const double elapsed = std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
      fastest = std::min(fastest, elapsed / (2 * kRounds));
    }
  });
  one.join();
  other.join();
  return fastest;
}

}  // namespace

double line_hand_off_ns() {
  const std::vector<int> cores = cores_of_process();
  constexpr size_t kMostPairs = 8;
  double furthest = 0;
  const size_t pairs = cores.empty() ? 0 : std::min(kMostPairs, cores.size() - 1);
  for (size_t pair = 1; pair <= pairs; ++pair) {
    furthest = std::max(furthest, between(cores[0], cores[pair * (cores.size() - 1) / pairs]));
  }
  return furthest;
}

}  // namespace millrace

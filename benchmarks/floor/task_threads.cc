#include "benchmarks/floor/task_threads.h"

#include <thread>
#include <vector>

namespace millrace {
namespace {

// What ends a task that waits for one that has failed.
struct AnotherFailed {};

}  // namespace

void TaskThreads::run(int num_threads, size_t num_tasks, const std::function<void(size_t, int)>& task) {
  std::atomic<size_t> next{0};
  failed_.store(false);
  failure_ = nullptr;
  const auto work = [&](int thread) {
    try {
      while (!failed_.load(std::memory_order_relaxed)) {
        const size_t index = next.fetch_add(1, std::memory_order_relaxed);
        if (index >= num_tasks) return;
        task(index, thread);
      }
    } catch (const AnotherFailed&) {
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (failure_ == nullptr) failure_ = std::current_exception();
      failed_.store(true);
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int thread = 1; thread < num_threads; ++thread) threads.emplace_back(work, thread);
    work(0);
  }
  if (failure_ != nullptr) std::rethrow_exception(failure_);
}

void TaskThreads::wait_for_none(const std::atomic<uint32_t>& remaining) const {
  constexpr int kSpins = 2000;
  for (int spins = 0; remaining.load(std::memory_order_acquire) > 0; ++spins) {
    if (failed_.load(std::memory_order_relaxed)) throw AnotherFailed();
    if (spins > kSpins) std::this_thread::yield();
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
}

}  // namespace millrace

#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>

namespace millrace {

/// Tasks of one list, taken in order by some threads, the caller among them. A task may wait for tasks before it: these
/// have been begun, so somebody works on them.
class TaskThreads {
 public:
  /// Runs `task(index, thread)` for every index below `num_tasks` and returns when all are done. Throws the first thing
  /// that one of them threw; no task is begun after it.
  void run(int num_threads, size_t num_tasks, const std::function<void(size_t, int)>& task);

  /// For tasks: spins until `remaining` is 0. Throws when another task has failed, and what is waited for may not come.
  void wait_for_none(const std::atomic<uint32_t>& remaining) const;

 private:
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace millrace

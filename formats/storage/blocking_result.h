#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

namespace millrace {

/// What somebody who waits for the storage does meanwhile.
struct StorageWait {
  std::chrono::nanoseconds poll_interval = {};  ///< between two calls of `on_poll`
  std::function<void()> on_poll = nullptr;      ///< throws when the wait must end; null: it goes on without end

  /// Until `is_woken`. `lock` is held when this returns, not inside of `on_poll` nor when that throws.
  template <typename IsWoken>
  void wait(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, IsWoken is_woken) const {
    if (!on_poll) return changed.wait(lock, is_woken);
    while (!changed.wait_for(lock, poll_interval, is_woken)) {
      lock.unlock();
      on_poll();
      lock.lock();
    }
  }
};

/// The result of one asynchronous call, for a caller that may wait for it: set once, by any thread; taken once.
template <typename Result>
class BlockingResult {
 public:
  void set(Result result) {
    const std::lock_guard lock(mutex_);
    result_ = std::move(result);
    there_.notify_one();
  }
  /// Sleeps until the result is there. What `on_poll` throws passes.
  Result wait(const StorageWait& with = {}) {
    std::unique_lock lock(mutex_);
    with.wait(there_, lock, [this] { return result_.has_value(); });
    return std::move(*result_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable there_;
  std::optional<Result> result_;
};

}  // namespace millrace

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
  std::chrono::nanoseconds look_after = {};  ///< how long a wait may last until `look` is called, again and again
  std::function<void()> look = nullptr;      ///< throws when the wait must end; null: it goes on for ever

  /// Until `is_woken`. `lock` is held when this returns, not inside of `look` nor when that throws.
  template <typename IsWoken>
  void wait(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, IsWoken is_woken) const {
    if (!look) return changed.wait(lock, is_woken);
    while (!changed.wait_for(lock, look_after, is_woken)) {
      lock.unlock();
      look();
      lock.lock();
    }
  }
};

/// The result of one asynchronous call, for a caller that may wait for it: set once, by any thread; taken once.
template <typename Result>
class Answer {
 public:
  void set(Result result) {
    const std::lock_guard lock(mutex_);
    result_ = std::move(result);
    there_.notify_one();
  }
  /// Sleeps until the result is there. What `look` throws passes.
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

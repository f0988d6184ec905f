#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

namespace millrace {

/// The result of one asynchronous call, for a caller that may wait for it: set once, by any thread; taken once.
template <typename Result>
class Answer {
 public:
  void set(Result result) {
    const std::lock_guard lock(mutex_);
    result_ = std::move(result);
    there_.notify_one();
  }
  /// Sleeps until the result is there.
  Result wait() {
    std::unique_lock lock(mutex_);
    there_.wait(lock, [this] { return result_.has_value(); });
    return std::move(*result_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable there_;
  std::optional<Result> result_;
};

}  // namespace millrace

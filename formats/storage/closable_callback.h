#pragma once

#include <functional>
#include <mutex>
#include <utility>

namespace millrace {

/// A callback in the hands of what may outlive its owner, such as a read in flight: the owner takes it back before it
/// goes. Any thread.
class ClosableCallback {
 public:
  explicit ClosableCallback(std::function<void()> function) : function_(std::move(function)) {}

  /// Not under a lock that the function's owner takes.
  void call() noexcept {
    const std::lock_guard lock(mutex_);
    if (function_) function_();
  }
  /// No call is in progress when it returns, and none follows.
  void close() {
    const std::lock_guard lock(mutex_);
    function_ = nullptr;
  }

 private:
  std::mutex mutex_;
  std::function<void()> function_;
};

}  // namespace millrace

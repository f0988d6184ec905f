#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "millrace/formats/storage/storage.h"

namespace millrace {

/// The answer to an open with what `wrap` makes of its file; where that throws, with the error. Without a file, as it
/// is.
template <typename Wrap>
[[nodiscard]] OpenResult with_file(OpenResult result, const Wrap& wrap) noexcept {
  if (result.file == nullptr) return result;
  try {
    return {.file = wrap(std::move(result.file))};
  } catch (...) {
    return {.error = {.error = current_exception_as_error()}};
  }
}

/// Whether a storage that stands before another one is still there. Opens in flight may outlive it, and whoever is told
/// of a retriable error asks it again: so the errors are final once it has gone. Shared by the storage and its opens.
/// Any thread.
class StorageLifetime {
 public:
  /// Tells the sink of an open. The storage stays until that returns, or has gone.
  void answer(OpenSink& sink, OpenResult result) {
    bool lives = true;
    {
      const std::lock_guard lock(mutex_);
      lives = !has_ended_;
      if (lives) ++answering_;
    }
    if (!lives) result.error.retriable = false;
    sink.open_done(std::move(result));
    if (!lives) return;
    const std::lock_guard lock(mutex_);
    if (--answering_ == 0) answered_.notify_all();
  }
  /// For the storage's destructor: waits for sinks that are being called.
  void end() {
    std::unique_lock lock(mutex_);
    has_ended_ = true;
    answered_.wait(lock, [this] { return answering_ == 0; });
  }

 private:
  std::mutex mutex_;  // once for each open, never for a read
  int answering_ = 0;
  bool has_ended_ = false;
  std::condition_variable answered_;
};

}  // namespace millrace

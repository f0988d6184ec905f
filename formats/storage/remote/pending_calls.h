#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "millrace/formats/storage/remote/retry.h"

namespace millrace {

/// Calls that a thread has started and waits for, and why the first of them failed.
class PendingCalls {
 public:
  /// One more is in flight; before it is started.
  void begin();
  /// What cancels it.
  void keep(const std::shared_ptr<RetriedCall>& call);
  /// One has ended; `error`: empty: it did what it should. Any thread.
  void end(std::string error);
  /// Until at most so many are in flight, or one has failed. Gives its error, or nothing.
  [[nodiscard]] std::string wait_for_most(int most);
  /// Cancels all, and waits until they have ended.
  void cancel();

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  int in_flight_ = 0;
  std::string error_;
  std::vector<std::weak_ptr<RetriedCall>> calls_;
};

}  // namespace millrace

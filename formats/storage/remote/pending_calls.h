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
  /// One that is in flight from its making on, until its end is told or the last that knows it is gone: also where it
  /// cannot be started.
  class Call {
   public:
    explicit Call(std::shared_ptr<PendingCalls> among);
    ~Call() { end("it was given up"); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    /// `error`: empty: it did what it should. Any thread; only the first time counts.
    void end(std::string error);

   private:
    std::shared_ptr<PendingCalls> among_;  // null: it has ended
  };

  /// What cancels it.
  void keep(const std::shared_ptr<RetriedCall>& call);
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

#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "millrace/formats/storage/local.h"

namespace millrace {

/// A few threads that may block on the device, so that no worker of a pipeline does. Created with the first function
/// that is submitted: files in the page cache never need them.
class IoThreads final : public IoExecutor {
 public:
  explicit IoThreads(int num_threads = 2) : num_threads_(num_threads) {}
  /// Runs what was submitted, then joins.
  ~IoThreads() override;
  void submit(std::function<void()> function) override;
  /// Joins; functions submitted later run inside `submit`.
  void stop();

 private:
  void run();

  const int num_threads_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> functions_;
  std::vector<std::thread> threads_;
  bool stopping_ = false;
};

}  // namespace millrace

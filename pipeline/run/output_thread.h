#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "millrace/formats/storage/local_disk.h"
#include "millrace/formats/storage/remote/io_threads.h"

namespace millrace {

/// The thread on which a pipeline writes files of its own. Made with the first function that is submitted.
class OutputThread final : public OutputExecutor {
 public:
  void submit(std::function<void()> function) override;
  void submit_sync(std::function<void()> function) override;
  void moved() noexcept override { done_.fetch_add(1, std::memory_order_relaxed); }
  /// Runs what was submitted, then joins; functions submitted later run inside `submit`.
  void stop() { thread_.stop(); }

  /// Functions that have run, and what they did in between (`moved`). Any thread.
  uint64_t done() const { return done_.load(std::memory_order_relaxed); }
  /// Whether something is being brought to the disk. Any thread.
  bool is_syncing() const { return syncing_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> done_{0};
  std::atomic<bool> syncing_{false};
  IoThreads thread_{1};
};

}  // namespace millrace

#pragma once

#include <atomic>
#include <cstdint>

namespace millrace {

/// Counts the elements that a map has come through inside its block, where whoever runs the map can see it: so that a
/// slow function of the user is distinguished from one that hangs. One store for each element.
///
///     ElementProgress progress;
///     for (size_t i = 0; i < block.num_elements(); ++i, progress.step()) ...
class ElementProgress {
 public:
  ElementProgress() : counter_(of_this_thread) {
    if (counter_ != nullptr) count_ = counter_->load(std::memory_order_relaxed);
  }
  void step() {
    if (counter_ != nullptr) counter_->store(++count_, std::memory_order_relaxed);
  }

  /// Where maps on the calling thread count; null: nowhere. Written by this thread only while it is set.
  static inline constinit thread_local std::atomic<uint64_t>* of_this_thread = nullptr;

 private:
  std::atomic<uint64_t>* const counter_;
  uint64_t count_ = 0;
};

}  // namespace millrace

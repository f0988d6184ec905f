#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace millrace {

/// Whether two threads were at the place of a planted race at once. On a machine that is busy one may do all the work
/// of a run, and then there is no race: the program runs until they have met. It orders nothing between them, for then
/// there would be no race.
class Meeting {
 public:
  /// Calls `touch` between the arrival of this thread and its leave.
  template <typename Touch>
  void attend(const Touch& touch) {
    if (present_.fetch_add(1, std::memory_order_relaxed) > 0) met_.store(true, std::memory_order_relaxed);
    touch();
    if (!met()) std::this_thread::sleep_for(std::chrono::microseconds(50));
    present_.fetch_sub(1, std::memory_order_relaxed);
  }
  bool met() const { return met_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int> present_{0};
  std::atomic<bool> met_{false};
};

}  // namespace millrace

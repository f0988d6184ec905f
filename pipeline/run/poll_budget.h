#pragma once

#include <utility>

namespace millrace {

/// How many blocks the stages of a chain may take from their inputs before the chain must come back to its poller. An
/// operator that drops what it gets (`unique` after `repeat`) would else never come back, and what the stages after
/// it hold ready would never go out. Belongs to the thread that polls the chain; other threads have none.
class PollBudget {
 public:
  /// Some 10 to 100 ms.
  static constexpr int kBlocks = 4096;

  PollBudget() : outer_(std::exchange(left_, kBlocks)) {}
  ~PollBudget() { left_ = outer_; }
  PollBudget(const PollBudget&) = delete;
  PollBudget& operator=(const PollBudget&) = delete;

  /// Whether it was used up: a chain that is pending may go on at once.
  bool is_over() const { return left_ == 0; }
  /// One block more from an input of the chain that this thread polls; false when it has to wait for the next budget:
  /// the input answers kPending, and nobody needs to be woken.
  static bool consume() {
    if (left_ > 0) --left_;
    return left_ != 0;
  }

 private:
  static inline constinit thread_local int left_ = -1;  // negative: there is no budget
  int outer_;
};

}  // namespace millrace

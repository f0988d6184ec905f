#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "millrace/ops/element_progress.h"
#include "millrace/pipeline/run/stage_statistics.h"

namespace millrace {

/// What a node of a segment does now: inside which operator it is and since when. Written by the one thread that runs
/// the node, with relaxed stores; read by the watchdog.
class Activity {
 public:
  struct Now {
    const StageStatistics* stage = nullptr;  ///< null: in none
    int64_t since_ns = 0;                    ///< when it was entered
    uint64_t elements = 0;                   ///< that maps have come through since then, where they count them
  };

  /// `stage`: the operator whose code runs from `now` on; null: none.
  void enter(const StageStatistics* stage, int64_t now) {
    since_ns_.store(now, std::memory_order_relaxed);
    elements_before_.store(elements_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    stage_.store(stage, std::memory_order_relaxed);
  }
  Now now() const {
    return {.stage = stage_.load(std::memory_order_relaxed),
            .since_ns = since_ns_.load(std::memory_order_relaxed),
            .elements = elements() - elements_before_.load(std::memory_order_relaxed)};
  }
  /// Elements that maps have come through here; never falls.
  uint64_t elements() const { return elements_.load(std::memory_order_relaxed); }

  /// The activity of the node that the calling thread runs; null outside of one.
  static Activity* of_this_thread() { return current; }

  /// Says that the calling thread runs the node of `activity`.
  class Scope {
   public:
    explicit Scope(Activity& activity)
        : outer_(std::exchange(current, &activity)),
          outer_elements_(std::exchange(ElementProgress::of_this_thread, &activity.elements_)) {}
    ~Scope() {
      current = outer_;
      ElementProgress::of_this_thread = outer_elements_;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Activity* outer_;
    std::atomic<uint64_t>* outer_elements_;
  };

 private:
  static inline constinit thread_local Activity* current = nullptr;

  std::atomic<const StageStatistics*> stage_{nullptr};
  std::atomic<int64_t> since_ns_{0};
  std::atomic<uint64_t> elements_{0};
  std::atomic<uint64_t> elements_before_{0};
};

}  // namespace millrace

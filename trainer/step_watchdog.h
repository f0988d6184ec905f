#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "pipeline/stall.h"
#include "trainer/parameters.h"

namespace millrace {

/// Notices that nothing moves within a step, and says which replica, and what in it, everybody waits for: a model that
/// does not return, a device that does not answer. (A step that waits for its batch is the pipeline's watchdog's.)
/// What moves is told by the replicas' threads, a store for each gradient that is final; a thread of its own looks
/// every quarter of the limit. A stall is told once, and again when something has moved in between.
class StepWatchdog {
 public:
  using OnStall = std::function<void(const Stall&)>;
  /// `seconds`: the limit; 0: it watches nothing and has no thread. `on_stall`: called on the watchdog's thread; null:
  /// prints the report on standard error. `layout` must outlive it.
  StepWatchdog(double seconds, OnStall on_stall, int replicas, const ParameterLayout& layout);
  ~StepWatchdog();
  StepWatchdog(const StepWatchdog&) = delete;
  StepWatchdog& operator=(const StepWatchdog&) = delete;

  /// `place`: which step, for the report. `active`: replicas that have rows.
  void step_begins(const std::string& place, int active);
  void step_ends();
  // On the replica's thread.
  void replica_begins(int replica) { moved(replica, Phase::kForward); }
  void backward_begins(int replica) { moved(replica, Phase::kBackward); }
  void gradient_final(int replica, int id) {
    nodes_[replica].parameter.store(id, std::memory_order_relaxed);
    moved(replica, Phase::kBackward);
  }
  void replica_ends(int replica) { moved(replica, Phase::kDone); }
  /// The replicas are done; the weights are updated.
  void updates_begin() { updating_.store(true, std::memory_order_relaxed), moves_.fetch_add(1); }

 private:
  enum class Phase : int { kWaiting, kForward, kBackward, kDone };
  struct Node {
    std::atomic<Phase> phase{Phase::kWaiting};
    std::atomic<int64_t> since_ns{0};
    std::atomic<int> parameter{-1};  // whose gradient was the last to be final
  };
  static int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }
  void moved(int replica, Phase phase) {
    nodes_[replica].since_ns.store(now_ns(), std::memory_order_relaxed);
    nodes_[replica].phase.store(phase, std::memory_order_relaxed);
    moves_.fetch_add(1, std::memory_order_relaxed);
  }
  void watch(const std::stop_token& stop);
  Stall describe(double seconds) const;

  const double seconds_;
  const OnStall on_stall_;
  const int replicas_;
  const ParameterLayout& layout_;
  std::unique_ptr<Node[]> nodes_;
  std::atomic<uint64_t> moves_{0};
  std::atomic<bool> updating_{false};

  std::mutex mutex_;  // of what follows
  std::condition_variable_any wake_;
  std::string place_;
  int active_ = 0;
  bool in_step_ = false;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace millrace

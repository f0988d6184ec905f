#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>

#include "millrace/pipeline/stall.h"
#include "millrace/trainer/parameters.h"

namespace millrace {

/// Notices that nothing moves within a step, and says which node of its graph everybody waits for: a replica and how
/// far it is, the decision, or the update of a bucket; a model that does not return, a device that does not answer. (A
/// step that waits for its batch is the pipeline's watchdog's.) What moves is told by the threads of the nodes, a store
/// for each gradient that is final; a thread of its own looks every quarter of the limit. A stall is reported once, and
/// again when something has moved in between.
class StepWatchdog {
 public:
  using OnStall = std::function<void(const Stall&)>;
  /// `seconds`: the limit; 0: it watches nothing and has no thread. `on_stall`: called on the watchdog's thread; what
  /// it throws is printed on standard error with the report, and it is called again for the next stall. Null: prints
  /// the report on standard error. `layout` and `buckets` must outlive it.
  StepWatchdog(double seconds, OnStall on_stall, int replicas, const ParameterLayout& layout,
               std::span<const Bucket> buckets);
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
    replicas_[replica].parameter.store(id, std::memory_order_relaxed);
    moved(replica, Phase::kBackward);
  }
  void replica_ends(int replica) { moved(replica, Phase::kDone); }
  // On the threads of the decision and the updates.
  void decision_begins() { moved(decision_, Work::kRuns); }
  void decision_ends() { moved(decision_, Work::kDone); }
  void update_begins(int bucket) { moved(updates_[bucket], Work::kRuns); }
  /// Its direction is known; it goes on when those of all buckets are.
  void update_waits(int bucket) { moved(updates_[bucket], Work::kWaiting); }
  void update_ends(int bucket) { moved(updates_[bucket], Work::kDone); }

 private:
  enum class Phase : int { kWaiting, kForward, kBackward, kDone };
  struct Replica {
    std::atomic<Phase> phase{Phase::kWaiting};
    std::atomic<int64_t> since_ns{0};
    std::atomic<int> parameter{-1};  // whose gradient was the last to be final
  };
  // The decision, or the update of a bucket.
  enum class Work : int { kWaiting, kRuns, kDone };
  struct Node {
    std::atomic<Work> work{Work::kWaiting};
    std::atomic<int64_t> since_ns{0};
  };
  static int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }
  void moved(int replica, Phase phase) {
    replicas_[replica].since_ns.store(now_ns(), std::memory_order_relaxed);
    replicas_[replica].phase.store(phase, std::memory_order_relaxed);
    moves_.fetch_add(1, std::memory_order_relaxed);
  }
  void moved(Node& node, Work work) {
    node.since_ns.store(now_ns(), std::memory_order_relaxed);
    node.work.store(work, std::memory_order_relaxed);
    moves_.fetch_add(1, std::memory_order_relaxed);
  }
  void watch(const std::stop_token& stop);
  void tell(const Stall& stall) const;
  Stall describe(double seconds) const;
  void describe_replicas(Stall& stall) const;
  void describe_update(Stall& stall) const;
  std::string bucket_name(size_t bucket) const;

  const double seconds_;
  const OnStall on_stall_;
  const int num_replicas_;
  const ParameterLayout& layout_;
  const std::span<const Bucket> buckets_;
  std::unique_ptr<Replica[]> replicas_;
  Node decision_;
  std::unique_ptr<Node[]> updates_;  // by bucket
  std::atomic<uint64_t> moves_{0};

  std::mutex mutex_;  // of what follows
  std::condition_variable_any wake_;
  std::string place_;
  int active_ = 0;
  bool in_step_ = false;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace millrace

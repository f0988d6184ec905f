#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>

#include "millrace/formats/columnar/buffer.h"
#include "millrace/ops/stage.h"
#include "millrace/pipeline/run/memory_budget.h"
#include "millrace/pipeline/run/tbb_handoff.h"

namespace millrace {

/// The number of workers that `threads` of the start options stands for: 0 is the number of cores. Throws
/// `kInvalidArgument` when it is negative or above 1,024.
[[nodiscard]] int checked_threads(int threads);

/// One pipeline's arena and flow graph. Bodies of its nodes never block and never throw. Segments make their nodes
/// here. Why it has an arena of its own and a reserved slot: docs/decisions/the_caller_works.md.
class Executor {
 public:
  using Node = tbb::flow::function_node<size_t, tbb::flow::continue_msg>;

  /// `threads`: size of the arena, at least 1. Workers come from oneTBB's process-wide pool, so fewer may run (see
  /// `WorkerLimit`); even none must do: a wake from outside forces one into being.
  /// `memory_budget`: bytes. `has_reserved_slot`: one of the threads is whoever has a `ArenaSession`.
  Executor(int threads, int64_t memory_budget, bool has_reserved_slot = false);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  int threads() const { return threads_; }
  bool has_reserved_slot() const { return has_reserved_slot_; }
  BufferPool& pool() { return pool_; }
  const BufferPool& pool() const { return pool_; }
  MemoryBudget& memory() { return memory_; }
  const MemoryBudget& memory() const { return memory_; }
  tbb::flow::graph& graph() { return *graph_; }

  /// Whom `fail` wakes. Before any work.
  void set_consumer(Waker& consumer) { consumer_ = &consumer; }
  /// A message or a block is lost, for there was no memory even for an error in its place: nothing more may come.
  void fail() noexcept;
  bool has_failed() const { return failed_.load(std::memory_order_relaxed); }

  /// Sends a message to a node, from any thread: from a body of this executor at once, from elsewhere through the
  /// arena's queue, since a message put by a thread outside the arena only advertises work to workers that may not
  /// exist. `token` marks the hand-off; the body acquires the same.
  void submit(Node& node, size_t message, void* token) noexcept;
  /// The same after everything that waits for a worker; `submit` inside of a body goes before it.
  void submit_last(Node& node, size_t message, void* token) noexcept;

  /// Marks the calling thread as inside a body, for the length of the body.
  class Body {
   public:
    explicit Body(Executor& executor);
    ~Body();
    Body(const Body&) = delete;
    Body& operator=(const Body&) = delete;

   private:
    Executor& executor_;
    const Executor* outer_;
  };
  /// Lets a thread from outside the arena join it on its one reserved slot; one at a time. Tasks that it spawned and
  /// did not run may wait until somebody joins again, so join again soon. Lives shorter than the executor, and longer
  /// than any call of `end`.
  class ArenaSession {
   public:
    explicit ArenaSession(Executor& executor) : executor_(executor) {}
    ArenaSession(const ArenaSession&) = delete;
    ArenaSession& operator=(const ArenaSession&) = delete;

    /// From now on `end` is heard. Not while another thread is in `begin` or `end`. False when there is no memory:
    /// then no session has begun.
    [[nodiscard]] bool begin();
    /// Runs bodies until `end`, and the one that runs then to its end.
    void work();
    /// Any thread, also before `work`; where no session has begun, nothing.
    void end() noexcept {
      handoff_release(this);
      open_ = {};
    }

   private:
    Executor& executor_;
    std::unique_ptr<tbb::task_group> group_;  // null: not made yet
    tbb::task_handle open_;                   // what the group waits for
  };
  /// Whether the calling thread is inside a body of this executor.
  bool inside() const;
  /// Whether the calling thread is inside a body of any executor: blocking there could wait for itself.
  static bool inside_any();

  /// No body starts work after this; running ones end soon.
  bool stopping() const { return stopping_.load(std::memory_order_relaxed); }
  /// Cancels and waits until no body runs and none will. After it the segments may be destroyed.
  void stop() noexcept;

  /// How many different threads have run bodies so far.
  int distinct_workers() const;

 private:
  void count_worker();

  const int threads_;
  const bool has_reserved_slot_;
  const uint64_t id_;
  const uint64_t reserved_number_;  // of whoever has the reserved slot, as of a thread
  BufferPool pool_;
  MemoryBudget memory_;
  tbb::task_arena arena_;
  std::optional<tbb::flow::graph> graph_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> external_submitters_{0};
  Waker* consumer_ = nullptr;
  std::atomic<bool> failed_{false};
  mutable std::mutex workers_mutex_;  // taken by a body only on a thread that came from another executor, or is new
  std::vector<uint64_t> workers_;     // numbers of the threads that have run bodies; the reserved slot is one
};

}  // namespace millrace

#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "millrace/ops/operator.h"
#include "millrace/pipeline/run/activity.h"
#include "millrace/pipeline/run/chain_run.h"
#include "millrace/pipeline/run/executor.h"
#include "millrace/pipeline/run/ring.h"
#include "millrace/pipeline/run/segment_state.h"
#include "millrace/pipeline/run/stage_statistics.h"

namespace millrace {

/// A piece of a running plan: one serial chain of stages (ChainRun), a parallel body of maps, and a Ring between the
/// two and whoever reads.
///
///     chain (one poller at a time) ──► body (any number in parallel) ──► slot[position % credits] ──► reader
///
/// The chain is polled by an unlimited node that a wake counter guards: `wakes_` is the exclusion, so a wake is never
/// lost and never queues more than one message. The message to the body is the number of a slot. A segment is made once
/// and lives as long as its pipeline; what it runs is replaced by `open`, once per iteration of its reader. The design,
/// and its flags and the ring's: docs/decisions/polled_chains_and_rings.md.
class Segment final : public Waker, public MemoryGate, public MemoryBudget::Waiter {
 public:
  struct Options {
    size_t credits = 4;                   ///< slots: blocks polled and not yet taken
    LargeBlockLimit::Options large = {};  ///< fewer of them while blocks are large
    bool is_light = false;                ///< all stages of the chain, see OperatorTraits
    /// Wakes of a sleeping reader are coalesced only while the blocks of its last turn took less than this each, in ns.
    int64_t quick_ns = 20'000;
    /// Such a wake is put off by at most this, in ns, and one more block.
    int64_t late_ns = 100'000;
    bool ordered = true;  ///< readers see the chain's order; otherwise the order in which bodies end
    SchemaPtr schema;     ///< of the chain's blocks
    std::vector<std::shared_ptr<const MapOperator>> maps;
    std::vector<StageStatistics*> map_statistics;  ///< one for each map
    bool meters_maps = true;                       ///< whether these are counted
    StageStatistics* assembly = nullptr;           ///< of blocks that the chain leaves to the body to assemble; or null
    std::string_view assembly_stage;               ///< the name of the stage that does so
    SegmentStatistics* statistics = nullptr;
  };

  Segment(Executor& executor, Options options);
  ~Segment();

  /// Starts a new run of the chain that `open` makes and returns its reader. The reader of the run before must be gone.
  /// `context` is the reader's: its waker is woken when a block is ready.
  ///
  /// A segment puts the states of its maps (NumberedRows) around its chain's: rows are numbered after the chain.
  [[nodiscard]] std::unique_ptr<Stage> open(OpenStage open, const StageContext& context);

  void wake() noexcept override;

  void room_made() noexcept override {
    if (out_of_memory_.exchange(false)) wake();
  }

  // For the stages of its chain.
  bool admit(int64_t bytes) noexcept override;
  bool admit_ahead(int64_t bytes) noexcept override { return executor_.memory().reserve(bytes); }
  void taken(int64_t bytes) noexcept override { executor_.memory().taken(bytes); }
  int64_t budget() const noexcept override { return executor_.memory().bytes(); }

  /// Adds the wait that goes on now, if any, to the nanoseconds of its kind. Any thread. A wait that ends meanwhile may
  /// be missed, when its nanoseconds were read before, and is never counted twice.
  void add_current_wait(int64_t& for_input_ns, int64_t& for_output_ns) const noexcept;

  /// See Ring. Any thread.
  [[nodiscard]] size_t usable_slots() const { return ring_.usable_slots(); }
  /// What it does now. Any thread.
  [[nodiscard]] SegmentState state() const;
  /// Elements that maps have come through inside their blocks; never falls. Any thread.
  [[nodiscard]] uint64_t elements() const;

  /// Destroys the chain; only when no body runs.
  void drop_chain() { run_.close(); }

 private:
  class Reader;

  using Slot = Ring::Slot;

  struct Request {
    Request(OpenStage of, std::optional<StageContext> with, uint64_t number)
        : open(std::move(of)), context(std::move(with)), generation(number) {}
    OpenStage open;
    std::optional<StageContext> context;
    uint64_t generation;
  };

  // After this many blocks the poller requeues itself, so that bodies of other segments get their turn on few threads.
  static constexpr int kBlocksPerTurn = 16;

  void request(OpenStage open, std::optional<StageContext> context);
  void submit() noexcept;
  void run_node() noexcept;
  void end_wait() noexcept;
  bool poll_until_blocked();
  void take_request();
  bool may_poll() noexcept;
  bool has_body() const { return !options_.maps.empty() || options_.assembly != nullptr; }
  void fill(Slot& slot, Block block, bool end);
  void run_body(size_t index) noexcept;
  bool may_wake_later() const noexcept;
  void wake_reader() noexcept;  // by the poller
  void run_maps(Slot& slot);

  Executor& executor_;
  Options options_;
  Ring ring_;

  // The poller's side; only inside run_node().
  ChainRun run_;
  bool ended_ = true;     // the chain gives no more blocks in this run
  bool end_due_ = false;  // and the reader has not been woken for it
  uint64_t generation_ = 0;
  bool waiting_for_output_ = false;
  bool is_quick_ = true;           // it was in the last turn that made blocks
  int64_t wake_due_since_ns_ = 0;  // since when the reader is to be woken; 0: it is not

  // Written by the poller, read by stats(): when the wait that goes on began, in nanoseconds of the clock; negative:
  // for output; 0: none.
  std::atomic<int64_t> waiting_since_ns_{0};

  Activity activity_;  // of the poller

  // Between poller, bodies and reader.
  std::atomic<uint64_t> wakes_{0};
  std::atomic<bool> out_of_memory_{false};  // waits for room in the budget, or for a reader that starves

  std::mutex request_mutex_;        // once per iteration, never on the way of a block
  std::optional<Request> request_;  // nothing is allocated for it: destructors make requests
  uint64_t requested_generation_ = 0;
  std::atomic<bool> has_request_{false};

  Executor::Node body_;
  Executor::Node poller_;
};

}  // namespace millrace

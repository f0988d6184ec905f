#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "millrace/ops/stage.h"
#include "millrace/pipeline/run/activity.h"
#include "millrace/pipeline/run/large_block_limit.h"
#include "millrace/pipeline/run/stage_statistics.h"

namespace millrace {

/// The ring of slots after a chain. It restores the order of blocks, bounds how many are on their way, and a free slot
/// is the permission to poll one more:
///
///     poller: free_slot, fill ──► bodies: begin_body, publish ──► slot[position % slots] ──► reader: next_ready, take
///
/// Nobody waits for a lock: who finds nothing says so in a flag, and is woken. Flag by flag:
/// docs/decisions/polled_chains_and_rings.md.
class Ring {
 public:
  struct Options {
    size_t slots = 4;                     ///< blocks polled and not yet taken
    LargeBlockLimit::Options large = {};  ///< fewer of them while blocks are large
    bool ordered = true;                  ///< the reader sees the order of filling, else that of publishing
  };
  enum class SlotState : uint32_t { kFree, kTaken, kInBody };
  struct Slot {
    Block block;
    uint64_t generation = 0;
    std::atomic<uint64_t> position{0};
    bool end = false;
    std::atomic<SlotState> state{SlotState::kFree};
    Activity activity;  // of the body that has it
  };

  /// `poller` outlives the ring.
  Ring(const Options& options, Waker& poller, SegmentStatistics& statistics);

  // Of the poller.

  /// A slot that may be filled; null: none now, and the poller is woken when there is one.
  [[nodiscard]] Slot* free_slot();
  /// `slot` has the next block. It is for a body, or is published at once.
  void fill(Slot& slot, bool for_body);
  /// How many were filled.
  uint64_t num_filled() const { return num_filled_; }
  /// Of these, not yet given back by the reader.
  uint64_t on_their_way() const { return num_filled_ - tail_.load(); }
  /// Whether the reader starves for the block that is polled next.
  bool is_waited_for() const { return starved_.load() && tail_.load(std::memory_order_relaxed) == num_filled_; }
  /// Where the order is free: whether a body has a block that is not published yet. The poller is woken by the last.
  bool has_bodies() const { return in_bodies_.load() > 0; }

  // Of bodies, and of the poller for blocks that no body works on.

  size_t index_of(const Slot& slot) const { return static_cast<size_t>(&slot - slots_.get()); }
  Slot& operator[](size_t index) { return slots_[index]; }
  void begin_body(Slot& slot);
  void end_body();
  /// Gives the block to the reader. Whether that starves for this one, and is to be woken.
  [[nodiscard]] bool publish(Slot& slot);
  void wake_starved_reader();
  /// Sizes of blocks after the bodies.
  LargeBlockLimit& large() { return large_; }

  // Of the reader.

  /// Who is woken when a block is ready that was missed. Before the first block of a run.
  void set_reader(Waker& reader) { reader_.store(&reader); }
  Waker& reader() const { return *reader_.load(); }
  /// The slot with its next block, or null.
  [[nodiscard]] Slot* next_ready();
  void set_starved(bool starved) { starved_.store(starved); }
  /// Takes the slot; its block is the reader's, up to `give_back`.
  void take() { ready_[place(tail_.load(std::memory_order_relaxed))].store(0, std::memory_order_relaxed); }
  void give_back(Slot& slot);

  // Any thread.

  /// Slots that may be in use now. Of large blocks (LargeBlockLimit) not all, and one more for each that is ready while
  /// the body of one before it runs: a slow block must not leave the workers idle.
  [[nodiscard]] size_t usable_slots() const;
  size_t num_slots() const { return options_.slots; }
  const Slot& operator[](size_t index) const { return slots_[index]; }
  /// How many blocks are ready.
  [[nodiscard]] size_t num_ready() const;
  /// Whether that which the reader takes next is.
  bool next_is_ready() const { return ready_[place(tail_.load())].load() != 0; }

 private:
  size_t place(uint64_t position) const { return position % options_.slots; }
  bool is_in_body(uint64_t position) const;
  void wake_for_large();

  const Options options_;
  Waker& poller_;
  SegmentStatistics& statistics_;
  LargeBlockLimit large_;
  std::unique_ptr<Slot[]> slots_;
  std::unique_ptr<std::atomic<uint32_t>[]> ready_;  // [position % slots] = slot + 1, or 0

  // The poller's.
  uint64_t num_filled_ = 0;
  size_t next_slot_ = 0;

  std::atomic<uint64_t> tail_{0};  // position of the block that the reader takes next
  std::atomic<bool> starved_{false};
  std::atomic<bool> out_of_slots_{false};
  std::atomic<bool> limited_{false};
  std::atomic<uint64_t> completed_{0};  // without order: positions given out so far
  std::atomic<int64_t> in_bodies_{0};   // without order: blocks that bodies hold
  std::atomic<Waker*> reader_{nullptr};
};

}  // namespace millrace

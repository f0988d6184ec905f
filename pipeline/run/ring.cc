#include "millrace/pipeline/run/ring.h"

#include <algorithm>

#include "millrace/pipeline/run/tbb_handoff.h"

namespace millrace {

Ring::Ring(const Options& options, Waker& poller, SegmentStatistics& statistics)
    : options_(options),
      poller_(poller),
      statistics_(statistics),
      large_(options.large),
      slots_(std::make_unique<Slot[]>(options.slots)),
      ready_(std::make_unique<std::atomic<uint32_t>[]>(options.slots)) {}

Ring::Slot* Ring::free_slot() {
  for (int attempt = 0; attempt < 2; ++attempt) {
    const uint64_t taken = on_their_way();
    const bool may_take = taken < usable_slots();
    limited_.store(!may_take && taken < options_.slots);
    for (size_t i = 0; may_take && i < options_.slots; ++i) {
      Slot& slot = slots_[(next_slot_ + i) % options_.slots];
      if (slot.state.load() == SlotState::kFree) {
        next_slot_ = (next_slot_ + i + 1) % options_.slots;
        return &slot;
      }
    }
    out_of_slots_.store(true);
  }
  return nullptr;
}

void Ring::fill(Slot& slot, bool for_body) {
  slot.position.store(num_filled_++, std::memory_order_relaxed);
  slot.state.store(SlotState::kTaken);
  statistics_.change_queue(1);
  raise_to(statistics_.queue_high_water, static_cast<int64_t>(num_filled_ - tail_.load(std::memory_order_relaxed)));
  if (for_body && !options_.ordered) in_bodies_.fetch_add(1);
}

void Ring::begin_body(Slot& slot) {
  slot.state.store(SlotState::kInBody);
  if (tail_.load() == slot.position.load(std::memory_order_relaxed)) wake_for_large();
}

void Ring::end_body() {
  if (!options_.ordered && in_bodies_.fetch_sub(1) == 1) poller_.wake();
}

bool Ring::publish(Slot& slot) {
  const uint64_t position = options_.ordered ? slot.position.load(std::memory_order_relaxed) : completed_.fetch_add(1);
  handoff_release(&slot);
  ready_[place(position)].store(static_cast<uint32_t>(index_of(slot)) + 1);
  if (tail_.load() == position) return starved_.load();
  wake_for_large();
  return false;
}

void Ring::wake_starved_reader() {
  if (starved_.exchange(false)) reader().wake();
}

Ring::Slot* Ring::next_ready() {
  const uint32_t index = ready_[place(tail_.load(std::memory_order_relaxed))].load();
  return index == 0 ? nullptr : &slots_[index - 1];
}

void Ring::give_back(Slot& slot) {
  tail_.fetch_add(1);
  statistics_.change_queue(-1);
  slot.state.store(SlotState::kFree);
  if (out_of_slots_.exchange(false)) poller_.wake();
}

bool Ring::is_in_body(uint64_t position) const {
  for (size_t i = 0; i < options_.slots; ++i) {
    if (slots_[i].state.load() == SlotState::kInBody && slots_[i].position.load() == position) return true;
  }
  return false;
}

size_t Ring::num_ready() const {
  size_t ready = 0;
  for (size_t i = 0; i < options_.slots; ++i) ready += ready_[i].load() != 0 ? 1 : 0;
  return ready;
}

size_t Ring::usable_slots() const {
  const size_t usable = large_.usable(options_.slots);
  if (usable == options_.slots || !options_.ordered) return usable;
  const uint64_t head = tail_.load();
  if (ready_[place(head)].load() != 0 || !is_in_body(head)) return usable;
  return std::min(usable + num_ready(), options_.slots);
}

// Where there is room for another large block, see usable_slots(), or blocks are no longer large.
void Ring::wake_for_large() {
  if (limited_.load() && out_of_slots_.load() && out_of_slots_.exchange(false)) poller_.wake();
}

}  // namespace millrace

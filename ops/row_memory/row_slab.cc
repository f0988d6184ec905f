#include "millrace/ops/row_memory/row_slab.h"

#include <algorithm>
#include <bit>

namespace millrace {
namespace {

constexpr size_t kFewestSlots = 8;
constexpr size_t kChunkBytes = 256 << 10;
constexpr size_t kLargestChunkBytes = 2 << 20;  // a huge page

// Of the next chunk of a class that has so many. A class with few rows stays small, and grows by an eighth at most when
// it has many; then it has few chunks, whose bookkeeping goes from core to core with the rows that come back.
size_t slots_of_chunk(size_t num_slots, size_t slot_bytes) {
  const size_t bytes = std::clamp(std::bit_floor(num_slots * slot_bytes / 8), kChunkBytes, kLargestChunkBytes);
  return std::clamp(num_slots, kFewestSlots, bytes / slot_bytes);
}

void reserve(std::vector<uint32_t>& ids, size_t count) {
  if (ids.capacity() < count) ids.reserve(std::max(count, 2 * ids.capacity()));
}

}  // namespace

RowSlab::Shared::~Shared() {
  for (Lease* loan = returned.load(std::memory_order_acquire); loan != nullptr;) {
    delete std::exchange(loan, loan->next_);
  }
}

void RowSlab::Lease::release() noexcept {
  // When the slab is gone and this is its last loan, the shared part goes at the end of this function, and with it
  // every loan that was returned.
  const std::shared_ptr<Shared> shared = std::move(shared_);
  next_ = shared->returned.load(std::memory_order_relaxed);
  while (!shared->returned.compare_exchange_weak(next_, this, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

RowSlab::RowSlab(BufferPool& pool) : pool_(pool), shared_(std::make_shared<Shared>()) {}

RowSlab::~RowSlab() = default;

void RowSlab::add_chunk(int size_class, size_t slot_bytes) {
  SizeClass& slots = classes_[static_cast<size_t>(size_class)];
  const size_t wanted = size_class == kOwnBuffer ? 1 : slots_of_chunk(slots.num_slots, slot_bytes);
  if (unused_chunks_.empty()) {
    reserve(unused_chunks_, shared_->chunks.size() + 1);  // `free` puts ids there, and may not fail
    shared_->chunks.emplace_back();
    unused_chunks_.push_back(static_cast<uint32_t>(shared_->chunks.size() - 1));
  }
  const uint32_t id = unused_chunks_.back();
  Chunk& chunk = shared_->chunks[id];
  chunk.buffer = pool_.allocate(wanted * slot_bytes);
  chunk.data = chunk.buffer->data();
  chunk.slot_bytes = slot_bytes;
  chunk.num_slots = chunk.num_fresh = static_cast<uint32_t>(wanted);
  chunk.free.reserve(wanted);
  reserve(slots.with_room, shared_->chunks.size());  // and here
  chunk.size_class = size_class;
  chunk.place = static_cast<uint32_t>(slots.with_room.size());
  slots.with_room.push_back(id);
  slots.num_slots += wanted;
  unused_chunks_.pop_back();
  bytes_ += static_cast<int64_t>(chunk.buffer->capacity());
}

void RowSlab::forget_room(uint32_t id) noexcept {
  std::vector<uint32_t>& with_room = classes_[static_cast<size_t>(chunks()[id].size_class)].with_room;
  const uint32_t place = chunks()[id].place;
  with_room[place] = with_room.back();
  shared_->chunks[with_room[place]].place = place;
  with_room.pop_back();
}

void RowSlab::remove_chunk(uint32_t id) noexcept {
  forget_room(id);
  Chunk& chunk = shared_->chunks[id];
  classes_[static_cast<size_t>(chunk.size_class)].num_slots -= chunk.num_slots;
  bytes_ -= static_cast<int64_t>(chunk.buffer->capacity());
  chunk.buffer = {};
  chunk.free.clear();
  unused_chunks_.push_back(id);
}

RowSlab::Slot RowSlab::allocate(size_t bytes) {
  int size_class = kOwnBuffer;
  size_t slot_bytes = (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
  if (bytes <= kSmallest) {
    size_class = 0;
    slot_bytes = kSmallest;
  } else if (bytes <= kLargest) {
    const int doubling = std::bit_width(bytes - 1) - 1;  // 2^doubling < bytes <= 2^(doubling + 1)
    const size_t step = (size_t{1} << doubling) / kStepsPerDoubling;
    const size_t steps = (bytes - (size_t{1} << doubling) + step - 1) / step;
    size_class = (doubling - (std::bit_width(unsigned{kSmallest}) - 1)) * kStepsPerDoubling + static_cast<int>(steps);
    slot_bytes = (size_t{1} << doubling) + steps * step;
  }
  SizeClass& slots = classes_[static_cast<size_t>(size_class)];
  // A buffer of its own has its own size: none that came back would do.
  if (slots.with_room.empty()) collect();
  if (slots.with_room.empty() || size_class == kOwnBuffer) add_chunk(size_class, slot_bytes);
  const uint32_t id = slots.with_room.back();
  Chunk& chunk = shared_->chunks[id];
  Slot slot{.chunk = id, .index = 0};
  if (!chunk.free.empty()) {
    slot.index = chunk.free.back();
    chunk.free.pop_back();
  } else {
    slot.index = chunk.num_slots - chunk.num_fresh--;
  }
  if (chunk.room() == 0) forget_room(id);
  return slot;
}

void RowSlab::free(Slot slot) noexcept {
  Chunk& chunk = shared_->chunks[slot.chunk];
  SizeClass& slots = classes_[static_cast<size_t>(chunk.size_class)];
  if (chunk.room() == 0) {
    chunk.place = static_cast<uint32_t>(slots.with_room.size());
    slots.with_room.push_back(slot.chunk);
  }
  chunk.free.push_back(slot.index);
  if (chunk.room() < chunk.num_slots) return;
  // One empty chunk stays, so that a class that goes up and down by a row does not allocate. One that is large goes to
  // the pool, which keeps it if there is room for it.
  const bool is_kept = slots.with_room.size() == 1 && chunk.size_class != kOwnBuffer &&
                       chunk.num_slots * chunk.slot_bytes <= kChunkBytes;
  if (!is_kept) remove_chunk(slot.chunk);
}

Ref<RowSlab::Lease> RowSlab::lend() {
  if (unused_loans_.empty()) unused_loans_.emplace_back(new Lease, [](Lease* unused) { delete unused; });
  Lease* loan = unused_loans_.back().release();
  unused_loans_.pop_back();
  loan->shared_ = shared_;
  return Ref<Lease>(loan);
}

void RowSlab::collect() {
  for (Lease* loan = shared_->returned.exchange(nullptr, std::memory_order_acquire); loan != nullptr;) {
    Lease* next = loan->next_;
    for (const Slot slot : loan->slots_) free(slot);
    loan->slots_.clear();
    unused_loans_.emplace_back(loan, [](Lease* unused) { delete unused; });
    loan = next;
  }
}

}  // namespace millrace

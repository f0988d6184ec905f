#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "millrace/formats/columnar/buffer.h"

namespace millrace {

/// Entries in order of a fixed-point key, for keys that never lie far ahead of the least one: a ring of buckets, each
/// for a few neighbouring keys, so that putting an entry in and taking it out cost the same however many there are.
/// `Entry` has the members `uint64_t key` and `uint32_t next`. Of equal keys the one put in first comes first.
///
/// Until `start`, entries are only collected: whoever knows that none may leave yet need not have room for the ring.
template <typename Entry>
class CalendarQueue {
  static_assert(std::is_trivially_copyable_v<Entry> && std::is_trivially_destructible_v<Entry>);
  static_assert(alignof(Entry) <= 64, "what the pool gives is not aligned better");

 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  /// `pool`: where the memory for entries is taken, and goes back to with the calendar.
  explicit CalendarQueue(BufferPool& pool) : pool_(pool) {}
  CalendarQueue(const CalendarQueue&) = delete;
  CalendarQueue& operator=(const CalendarQueue&) = delete;

  bool started() const { return heads_ != nullptr; }
  uint32_t size() const { return size_; }

  /// From now on entries leave. No key is below `first`, nor will any be further than `span` ahead of the next bucket;
  /// `density` are the entries expected at most for each 2^`fraction_bits` of key.
  void start(uint64_t first, uint64_t span, int fraction_bits, double density) {
    // Two entries to a bucket: short lists, and few empty buckets to pass.
    shift_ = fraction_bits + 1;
    while (density < 1 && shift_ < 60) {
      density *= 2;
      ++shift_;
    }
    size_t buckets = 4;
    while (buckets < (span >> shift_) + 2) buckets *= 2;
    heads_buffer_ = pool_.allocate(buckets * sizeof(uint32_t));
    heads_ = reinterpret_cast<uint32_t*>(heads_buffer_->data());
    std::fill_n(heads_, buckets, kNone);
    mask_ = buckets - 1;
    next_bucket_ = first >> shift_;
    for (uint32_t i = 0; i < num_entries_; ++i) link(i);
  }

  /// Asks for the memory that `add` with this key will need.
  void expect(uint64_t key) const {
    if (started()) __builtin_prefetch(&heads_[(key >> shift_) & mask_], 1);
  }

  /// A new entry with this key; the caller fills in the rest, in place: an entry put together elsewhere and copied
  /// would be read back while the stores of the row before it still wait for memory.
  Entry& add(uint64_t key) {
    uint32_t index = free_;
    if (index == kNone) {
      if (num_entries_ == capacity_) make_room();
      index = num_entries_++;
      new (entry_at(index)) Entry();
    } else {
      free_ = entry_at(index)->next;
    }
    Entry* entry = entry_at(index);
    entry->key = key;
    ++size_;
    if (started()) link(index);
    return *entry;
  }

  /// Whether every entry with a key below `limit` that is still here is known to be so, and the next bucket ends there.
  bool bucket_ends_by(uint64_t limit) const { return (next_bucket_ + 1) << shift_ <= limit; }

  /// Calls the function with each entry, in no order.
  template <typename Function>
  void for_each(Function&& function) const {
    if (size_ == 0) return;
    if (!started()) {
      for (uint32_t i = 0; i < num_entries_; ++i) function(*entry_at(i));
      return;
    }
    for (uint64_t bucket = 0; bucket <= mask_; ++bucket) {
      for (uint32_t i = heads_[bucket]; i != kNone; i = entry_at(i)->next) function(*entry_at(i));
    }
  }

  /// Moves the entries of the next bucket to `out`, in order.
  void take_bucket(std::vector<Entry>& out) {
    // Its entries lie anywhere in memory, and each says where the next one of its bucket is: ask for the first four of
    // buckets to come (one in twenty has more), a later one when those before it have arrived.
    constexpr uint64_t kStride = 3;  // buckets: the time that an entry takes to arrive
    constexpr uint32_t kPrefetched = 4;
    for (uint32_t n = 0; n < kPrefetched; ++n) {
      uint32_t entry = heads_[(next_bucket_ + kStride * (kPrefetched - n)) & mask_];
      for (uint32_t i = 0; i < n && entry != kNone; ++i) entry = entry_at(entry)->next;
      if (entry != kNone) __builtin_prefetch(entry_at(entry));
    }
    out.clear();
    // Should there be no memory for `out`, nothing is here twice.
    for (uint32_t i = std::exchange(heads_[next_bucket_++ & mask_], kNone); i != kNone;) {
      Entry& entry = *entry_at(i);
      const uint32_t next = entry.next;
      // The list has the last one put in first: of equal keys this one goes before those that are there.
      size_t place = 0;
      while (place < out.size() && out[place].key < entry.key) ++place;
      out.insert(out.begin() + static_cast<std::ptrdiff_t>(place), entry);
      entry.next = free_;
      free_ = i;
      --size_;
      i = next;
    }
  }

 private:
  // Entries of a part, which never moves once it is whole; the first one grows to that.
  static constexpr uint32_t kPart = 4096;
  static constexpr uint32_t kFirst = 64;

  Entry* entry_at(uint32_t index) const { return parts_[index / kPart] + index % kPart; }

  void make_room() {
    const uint32_t entries = capacity_ == 0 ? kFirst : std::min(capacity_, kPart);
    const bool grows = capacity_ > 0 && capacity_ < kPart;
    const Buffer memory = pool_.allocate((grows ? 2 : 1) * entries * sizeof(Entry));
    auto* part = reinterpret_cast<Entry*>(memory->data());
    if (grows) {
      std::copy_n(parts_[0], entries, part);
      parts_[0] = part;
      memory_[0] = memory;
    } else {
      parts_.push_back(part);
      memory_.push_back(memory);
    }
    capacity_ += entries;
  }

  void link(uint32_t index) {
    Entry* entry = entry_at(index);
    uint32_t& head = heads_[(entry->key >> shift_) & mask_];
    entry->next = head;
    head = index;
  }

  BufferPool& pool_;
  std::vector<Entry*> parts_;
  std::vector<Buffer> memory_;  // of the parts
  uint32_t capacity_ = 0;
  uint32_t num_entries_ = 0;  // those that are free included
  uint32_t free_ = kNone;
  uint32_t size_ = 0;
  Buffer heads_buffer_;
  uint32_t* heads_ = nullptr;  // of each bucket, its last entry
  uint64_t mask_ = 0;
  uint64_t next_bucket_ = 0;
  int shift_ = 0;
};

}  // namespace millrace

#include "millrace/ops/tokens/length_queue.h"

#include <bit>

namespace millrace {
namespace {

constexpr uint32_t kBits = 64;

// The highest bit of a word at or below `bit`; there must be one.
uint32_t highest(uint64_t word) { return kBits - 1 - static_cast<uint32_t>(std::countl_zero(word)); }
uint64_t up_to(uint32_t bit) { return ~uint64_t{0} >> (kBits - 1 - bit); }

}  // namespace

LengthQueue::LengthQueue(size_t most)
    : firsts_(most + 1, kNone),
      lasts_(most + 1, kNone),
      present_(most / kBits + 1),
      present_words_(most / kBits / kBits + 1) {}

uint32_t LengthQueue::add(uint32_t length) {
  if (unused_.empty()) {
    unused_.push_back(static_cast<uint32_t>(entries_.size()));
    entries_.emplace_back();
  }
  const uint32_t entry = unused_.back();
  unused_.pop_back();
  entries_[entry] = {.length = length, .earlier = newest_};
  (newest_ == kNone ? oldest_ : entries_[newest_].later) = entry;
  newest_ = entry;
  if (firsts_[length] == kNone) {
    firsts_[length] = entry;
    present_[length / kBits] |= uint64_t{1} << length % kBits;
    present_words_[length / kBits / kBits] |= uint64_t{1} << length / kBits % kBits;
  } else {
    entries_[lasts_[length]].next = entry;
  }
  lasts_[length] = entry;
  ++size_;
  return entry;
}

void LengthQueue::remove(uint32_t entry) {
  const Entry& gone = entries_[entry];
  (gone.earlier == kNone ? oldest_ : entries_[gone.earlier].later) = gone.later;
  (gone.later == kNone ? newest_ : entries_[gone.later].earlier) = gone.earlier;
  firsts_[gone.length] = gone.next;
  if (gone.next == kNone) {
    uint64_t& word = present_[gone.length / kBits];
    word &= ~(uint64_t{1} << gone.length % kBits);
    if (word == 0) present_words_[gone.length / kBits / kBits] &= ~(uint64_t{1} << gone.length / kBits % kBits);
  }
  unused_.push_back(entry);
  --size_;
}

uint32_t LengthQueue::longest_length(uint32_t most) const {
  const uint32_t word = most / kBits;
  if (const uint64_t here = present_[word] & up_to(most % kBits); here != 0) return word * kBits + highest(here);
  if (word == 0) return kNone;
  uint32_t group = (word - 1) / kBits;
  uint64_t words = present_words_[group] & up_to((word - 1) % kBits);
  while (words == 0) {
    if (group == 0) return kNone;
    words = present_words_[--group];
  }
  const uint32_t below = group * kBits + highest(words);
  return below * kBits + highest(present_[below]);
}

uint32_t LengthQueue::longest(uint32_t most) const {
  const uint32_t length = longest_length(most);
  return length == kNone ? kNone : firsts_[length];
}

}  // namespace millrace

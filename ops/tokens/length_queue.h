#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace {

/// Entries that wait, each with a length: the one that came first, the first of a length, and the longest that is not
/// longer than something are found at once. Entries are numbers from 0 that are used again, so that the owner can keep
/// what belongs to them in an array. An entry may leave only as the first of its length.
class LengthQueue {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  /// Lengths are from 0 to `most`.
  explicit LengthQueue(size_t most);
  /// What one takes before anything waits: 8 bytes for each length.
  static int64_t bytes_for(int64_t most) { return 8 * (most + 1); }

  uint32_t add(uint32_t length);
  void remove(uint32_t entry);

  size_t size() const { return size_; }
  uint32_t oldest() const { return oldest_; }
  uint32_t first_of(uint32_t length) const { return firsts_[length]; }
  /// The first of the longest ones that have a length of at most `most`; kNone: there is none.
  uint32_t longest(uint32_t most) const;
  uint32_t length(uint32_t entry) const { return entries_[entry].length; }

  /// Calls `function(entry)` with the first of every length that there is.
  template <typename Function>
  void for_each_first(Function&& function) const {
    for (uint32_t most = longest_length(static_cast<uint32_t>(firsts_.size()) - 1); most != kNone;) {
      function(firsts_[most]);
      most = most == 0 ? kNone : longest_length(most - 1);
    }
  }

 private:
  struct Entry {
    uint32_t length = 0;
    uint32_t earlier = kNone;  // of all
    uint32_t later = kNone;
    uint32_t next = kNone;  // of this length
  };
  // The longest length up to `most` of which there is an entry, or kNone.
  uint32_t longest_length(uint32_t most) const;

  std::vector<Entry> entries_;
  std::vector<uint32_t> unused_;
  std::vector<uint32_t> firsts_;  // by length
  std::vector<uint32_t> lasts_;
  std::vector<uint64_t> present_;        // bit l: there is an entry of length l
  std::vector<uint64_t> present_words_;  // bit w: word w of the above is not 0
  uint32_t oldest_ = kNone;
  uint32_t newest_ = kNone;
  size_t size_ = 0;
};

}  // namespace millrace

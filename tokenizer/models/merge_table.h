#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace millrace {

/// What two neighbouring tokens of a BPE model become, and how early. Built by `set`; then any thread.
class MergeTable {
 public:
  struct Merge {
    int32_t rank = 0;  // the lowest goes first
    int32_t id = 0;    // of the token that they become
  };

  explicit MergeTable(size_t num_merges);

  /// Of two merges of the same tokens the last one counts.
  void set(int32_t left, int32_t right, Merge merge);

  std::optional<Merge> find(int32_t left, int32_t right) const {
    const uint64_t key = key_of(left, right);
    for (size_t at = slot_of(key);; at = (at + 1) & mask_) {
      if (slots_[at].key == key) return slots_[at].merge;
      if (slots_[at].key == kEmpty) return std::nullopt;
    }
  }

 private:
  static constexpr uint64_t kEmpty = UINT64_MAX;  // ids are not negative
  struct Slot {
    uint64_t key = kEmpty;
    Merge merge;
  };

  static uint64_t key_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t key) const { return (key * 0x9e3779b185ebca87U >> 32) & mask_; }

  std::vector<Slot> slots_;  // at most half of them in use
  size_t mask_;
};

}  // namespace millrace

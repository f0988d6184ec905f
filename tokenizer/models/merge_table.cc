#include "millrace/tokenizer/models/merge_table.h"

#include <bit>

namespace millrace {

MergeTable::MergeTable(size_t num_merges) : slots_(std::bit_ceil(2 * num_merges + 2)), mask_(slots_.size() - 1) {}

void MergeTable::set(int32_t left, int32_t right, Merge merge) {
  const uint64_t key = key_of(left, right);
  size_t at = slot_of(key);
  while (slots_[at].key != kEmpty && slots_[at].key != key) at = (at + 1) & mask_;
  slots_[at] = {key, merge};
}

}  // namespace millrace

#include "millrace/ops/keep/reported_notes.h"

#include <algorithm>
#include <vector>

namespace millrace {

bool drop_reported_notes(Block& block, int64_t epoch, BufferPool& pool) {
  const auto is_note = [](const ElementError& entry) { return entry.is_note(); };
  if (epoch == 0 || std::none_of(block.errors().begin(), block.errors().end(), is_note)) return true;
  std::vector<size_t> others;
  for (size_t i = 0; i < block.num_elements(); ++i) {
    const ElementError* const entry = block.next_error(i);
    if (entry == nullptr || entry->element != i || !entry->is_note()) others.push_back(i);
  }
  block = block.select(others, pool);
  return !others.empty();
}

}  // namespace millrace

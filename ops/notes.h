#pragma once

#include <algorithm>

#include "millrace/formats/columnar/block.h"

namespace millrace {

/// Whether a block has nothing but notes of what was left out of damaged shards, which are no elements.
inline bool holds_notes_only(const Block& block) {
  return block.errors().size() == block.num_elements() &&
         std::all_of(block.errors().begin(), block.errors().end(), [](const auto& error) { return error.is_note(); });
}

}  // namespace millrace

#pragma once

#include "millrace/formats/columnar/block.h"

namespace millrace {

/// Takes the notes of what was left out of damaged shards out of a block of a later epoch than the first, where
/// elements are kept from epoch to epoch: the shards were read once, and the first epoch has told. False when nothing
/// is left.
[[nodiscard]] bool drop_told_notes(Block& block, int64_t epoch, BufferPool& pool);

}  // namespace millrace

#pragma once

#include "millrace/formats/columnar/block.h"

namespace millrace {

/// In epochs after the first, removes the notes that the first epoch has reported: of parts of damaged shards that were
/// left out. For elements that are kept from epoch to epoch, whose shards were read once. False when nothing is left.
[[nodiscard]] bool drop_reported_notes(Block& block, int64_t epoch, BufferPool& pool);

}  // namespace millrace

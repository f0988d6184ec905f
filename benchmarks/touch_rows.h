#pragma once

#include <cstdint>

#include "millrace/formats/columnar/block.h"

namespace millrace {

/// Reads one byte of each row of a batch (a block of one element), in every column; of `bytes` the first byte of each
/// payload. A timed run does so, that what it times has really arrived. Returns the sum of these bytes.
[[nodiscard]] uint64_t touch_rows(const Block& batch);

}  // namespace millrace

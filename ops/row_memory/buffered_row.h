#pragma once

#include <cstddef>

#include "millrace/formats/columnar/block.h"

namespace millrace {

/// An element that waits for others: still in the block that it came in, or, where that would have kept the block too
/// long, as RowCodec writes it.
struct BufferedRow {
  const std::byte* encoded = nullptr;  ///< or null
  size_t bytes = 0;                    ///< as RowCodec writes it
  const Block* block = nullptr;        ///< where it is not encoded
  size_t element = 0;                  ///< of `block`
};

}  // namespace millrace

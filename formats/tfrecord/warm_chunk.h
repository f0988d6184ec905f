#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace {

/// Bytes that are asked at a time of storage that answers at once, where more are allowed: a quarter of a core's
/// L2 cache, for the checksums come after, 128 KiB to 256 KiB; 256 KiB where that would be fewer than 16 records of
/// `record_bytes` (0: not known), since what goes to the caller costs the same, few records or many.
[[nodiscard]] size_t most_warm_chunk_bytes(uint64_t record_bytes);

}  // namespace millrace

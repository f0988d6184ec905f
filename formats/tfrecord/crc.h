#pragma once

#include <cstdint>
#include <string_view>

namespace millrace {

/// CRC32C (Castagnoli, RFC 3720 appendix B.4) of `bytes`, or of these after others whose CRC is `before`. The widest
/// instructions of the processor are picked at run time. Any thread.
uint32_t crc32c(std::string_view bytes, uint32_t before = 0);

/// The masked form that TFRecord files store: rotated right by 15 bits plus a constant, so that a CRC of bytes that
/// hold CRCs stays meaningful.
constexpr uint32_t mask_crc(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8U; }

inline uint32_t masked_crc32c(std::string_view bytes) { return mask_crc(crc32c(bytes)); }

/// The masked CRC of the eight bytes of `length` in little-endian order: what guards a record's length.
uint32_t masked_crc32c_of_length(uint64_t length);

/// One table-driven byte at a time: what `crc32c` falls back to, and the oracle of its tests.
uint32_t crc32c_portable(std::string_view bytes, uint32_t before = 0);

}  // namespace millrace

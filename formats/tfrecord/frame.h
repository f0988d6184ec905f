#pragma once

#include <cstdint>
#include <cstring>

#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {

// A record in a TFRecord file: its length (uint64), the length's masked CRC (uint32), the payload, the payload's masked
// CRC (uint32); little-endian.
constexpr uint64_t kFrameHeaderBytes = 12;  ///< in front of the payload
constexpr uint64_t kFrameBytes = 16;        ///< around the payload

/// A number of a frame.
template <typename T>
T load_frame_field(const void* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

/// What is said of a frame whose CRCs do not fit, without the place.
inline Error bad_length_crc(uint64_t length, uint32_t found, uint32_t field) {
  return {.code = ErrorCode::kLengthCrc,
          .message = fmt::format("the record's length {} has the masked CRC {:08x}, its field says {:08x}", length,
                                 found, field)};
}
inline Error bad_payload_crc(uint64_t length, uint32_t found, uint32_t field) {
  return {.code = ErrorCode::kPayloadCrc,
          .message = fmt::format("the record's {} bytes have the masked CRC {:08x}, its field says {:08x}", length,
                                 found, field)};
}

}  // namespace millrace

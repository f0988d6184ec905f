#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace millrace {

/// A place inside a file of zlib streams or gzip members from which it can be unpacked without what lies before:
/// between two streams, between two deflate blocks, or between two symbols of a block (RFC 1951).
struct SeekPoint {
  uint64_t bit = 0;           ///< of the file, least significant bit of each byte first: where unpacking goes on
  uint64_t offset = 0;        ///< unpacked bytes before it
  uint64_t stream_begin = 0;  ///< byte of the file where its stream begins; 8 times that is `bit` between two streams
  uint64_t stream_bytes = 0;  ///< unpacked bytes of its stream before it
  uint64_t num_streams = 0;   ///< whole streams before it
  uint32_t checksum = 0;      ///< of these `stream_bytes`: CRC-32 (gzip) or Adler-32 (zlib)
  /// Inside a block: the block's header with its code tables, from its first bit on. 0 bits between two blocks.
  uint32_t num_header_bits = 0;
  std::string header = {};
  /// The last bytes before it that what follows may refer to: min(32 KiB, stream_bytes), packed by `pack_window`; none
  /// between two streams.
  uint32_t window_bytes = 0;
  std::string packed_window = {};

  bool between_streams() const { return bit == 8 * stream_begin; }
  friend bool operator==(const SeekPoint&, const SeekPoint&) = default;
};

/// Deflate data refers to at most this many bytes before it.
constexpr uint32_t kWindowBytes = 32 << 10;
/// A dynamic block's header at its longest: 17 bits, 19 lengths of 3 bits, 316 code lengths of 7 + 7 bits.
constexpr uint32_t kMostHeaderBits = 17 + 19 * 3 + 316 * 14;

/// Packs up to 32 KiB as raw deflate data.
[[nodiscard]] std::string pack_window(std::string_view window);
/// The window of a point. Throws `kIndex` when it does not unpack to exactly `window_bytes`.
[[nodiscard]] std::string unpack_window(const SeekPoint& point);

}  // namespace millrace

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace millrace {

// RFC 8878, 3.1: what frames begin with. Skippable ones end in any of sixteen digits.
constexpr uint32_t kZstdMagic = 0xfd2fb528;
constexpr uint32_t kSkippableMagic = 0x184d2a50;
constexpr uint32_t kSkippableMask = 0xfffffff0;
constexpr bool is_skippable(uint64_t magic) { return (magic & kSkippableMask) == kSkippableMagic; }
/// The magic number and the length of the content, which follows.
constexpr size_t kSkippableHeaderBytes = 8;
/// Of the seekable format.
constexpr uint32_t kSeekTableMagic = 0x184d2a5e;
/// Of the skippable frames in shards of ours, whose content begins with the mark: at the beginning the mark alone.
constexpr uint32_t kShardMagic = 0x184d2a5b;
constexpr std::string_view kShardMark = "MLRZSTD\x01";
constexpr size_t kShardPromiseBytes = kSkippableHeaderBytes + kShardMark.size();

/// Numbers are little-endian, of up to eight bytes.
constexpr uint64_t zstd_number(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) value |= std::to_integer<uint64_t>(bytes[i]) << (8 * i);
  return value;
}

}  // namespace millrace

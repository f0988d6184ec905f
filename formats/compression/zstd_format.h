#pragma once

#include <cstdint>
#include <string_view>

namespace millrace {

// RFC 8878, 3.1: what frames begin with. Skippable ones end in any of sixteen digits.
constexpr uint32_t kZstdMagic = 0xfd2fb528;
constexpr uint32_t kSkippableMagic = 0x184d2a50;
constexpr uint32_t kSkippableMask = 0xfffffff0;
/// Of the seekable format.
constexpr uint32_t kSeekTableMagic = 0x184d2a5e;
/// Of the skippable frames in shards of ours, whose content begins with the mark: at the beginning the mark alone.
constexpr uint32_t kShardMagic = 0x184d2a5b;
constexpr std::string_view kShardMark = "MLRZSTD\x01";

}  // namespace millrace

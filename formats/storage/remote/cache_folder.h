#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace millrace {

/// What names of files begin with that are not whole.
constexpr const char* kCacheTemporary = "tmp-";

/// Makes a folder a disk cache's: an empty one, one that is not there, or one that has nothing but what such a cache
/// has. A new one is for this user alone. Throws `kInvalidArgument` for a folder with other things, and `kIo`.
void prepare_cache_folder(const std::string& folder);

/// What a disk cache came to.
struct CacheSize {
  uint64_t bytes = 0;  ///< that are there, with those of files that are not whole
  uint64_t most = 0;   ///< that may be
};

/// Removes the blocks that were not used for longest, down to 95% of `most` bytes where there are more, and what killed
/// writers left an hour ago; nothing that has no name of ours. `most`: 0: nine tenths of what the file system has room
/// for. Where another process is at it nothing is removed, or, if `waits`, after that. Throws `kIo`.
CacheSize evict_from_cache(const std::string& folder, uint64_t most, bool waits = false);

/// Blocks are used: they go later. Written down in the times of their files.
void note_use_of_blocks(const std::vector<std::string>& paths) noexcept;

}  // namespace millrace

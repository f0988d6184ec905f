#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace millrace {

/// A cache on disk of what is read from object stores and URLs (`DiskCache`).
struct DiskCacheOptions {
  /// Of its own, made where it is not there; processes of one user may share it. Default: empty, there is none
  std::string folder = {};
  /// The most bytes of its files; those go that were not used for longest. Default: 0, nine tenths of what the file
  /// system has room for
  uint64_t bytes = 0;
  /// Is told, once and on a thread of the cache's, why it writes no more: the disk is full, or fails. Reading goes on.
  /// Must not throw. Of the first who opens the folder. Default: null
  std::function<void(const std::string&)> on_end = nullptr;
};

/// What a cache on disk came to, in this process.
struct DiskCacheStatistics {
  uint64_t hit_bytes = 0;       ///< read from it
  uint64_t missed_bytes = 0;    ///< that came from stores, of files that could be here
  uint64_t written_bytes = 0;   ///< of blocks that became whole
  uint64_t dropped_bytes = 0;   ///< of blocks that were begun and given up: too slow a disk, or not read to their ends
  uint64_t damaged_blocks = 0;  ///< were removed
  uint64_t uncached_files = 0;  ///< opened files of which nothing tells the content from another one
  std::string ended = {};       ///< why it writes no more; empty: it does

  /// Since `earlier`, of the same cache.
  [[nodiscard]] DiskCacheStatistics operator-(const DiskCacheStatistics& earlier) const {
    return {.hit_bytes = hit_bytes - earlier.hit_bytes,
            .missed_bytes = missed_bytes - earlier.missed_bytes,
            .written_bytes = written_bytes - earlier.written_bytes,
            .dropped_bytes = dropped_bytes - earlier.dropped_bytes,
            .damaged_blocks = damaged_blocks - earlier.damaged_blocks,
            .uncached_files = uncached_files - earlier.uncached_files,
            .ended = ended};
  }
};

}  // namespace millrace

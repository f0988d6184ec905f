#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

namespace millrace {

/// Tells a local file as it is from others, and from itself with other content: but for one that is given its earlier
/// time. Links to a file change nothing of it, as they do of the time of its status (ctime).
struct FileStamp {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size = 0;
  int64_t modified = 0;  ///< nanoseconds since 1970

  bool operator<(const FileStamp& other) const {
    return std::tie(device, inode, size, modified) < std::tie(other.device, other.inode, other.size, other.modified);
  }
  /// Whether a later change has another time for sure: clocks of file systems tick, some of them every two seconds.
  [[nodiscard]] bool has_settled() const;
};

/// Nothing where it cannot be seen.
[[nodiscard]] std::optional<FileStamp> stamp_of(const std::string& path);

}  // namespace millrace

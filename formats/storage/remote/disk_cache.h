#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "millrace/formats/storage/remote/disk_cache_options.h"
#include "millrace/formats/storage/storage.h"

namespace millrace {

class BlockCache;

/// Blocks of objects on a disk: what comes from a store is copied to files that later reads, epochs and processes take.
/// A block is of one version of an object, checked by CRC-32C when it is read, and asked of the store where it is not
/// there or not whole. Processes of one user may share the folder.
///
/// It is never in the way: what comes goes to whoever reads it, and a copy to a thread that writes. Where that does not
/// keep up, copies are dropped; where three blocks in a row cannot be written, it writes no more, and tells so once.
///
/// There is one for each folder in a process, with threads of its own, and it stays until the process ends; another one
/// in the child of a fork. Any thread.
class DiskCache {
 public:
  /// That of a folder; it takes the bytes of these options from now on. Throws `kInvalidArgument` for a folder with
  /// other things, and `kIo`.
  [[nodiscard]] static std::shared_ptr<DiskCache> open(const DiskCacheOptions& options);
  explicit DiskCache(std::shared_ptr<BlockCache> blocks) : blocks_(std::move(blocks)) {}

  /// As `storage.open(url, sink)`; blocks of the file that are here are read from here. Files of which nothing tells
  /// the content from another one are as they are. `identity`: the name of the object with that of its store.
  void open_file(Storage& storage, const std::string& url, const std::string& identity, std::shared_ptr<OpenSink> sink);
  /// Waits until what has come is written, at most so long. Gives whether it is.
  bool flush(std::chrono::milliseconds most = std::chrono::minutes(10));
  [[nodiscard]] DiskCacheStatistics statistics() const;  ///< since it was opened first

 private:
  const std::shared_ptr<BlockCache> blocks_;
};

}  // namespace millrace

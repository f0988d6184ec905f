#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/formats/storage/blocking_result.h"

namespace millrace {

class Storage;

/// Digests of the files that a dataset reads, in order: of each its name without the folder, its size, and its first
/// and last 4 KiB. Neighbours share a digest when there are more than 32 files, so a state stays small.
struct ShardDigest {
  static constexpr size_t kMostGroups = 32;

  int64_t num_shards = 0;
  std::vector<uint64_t> names;  ///< one for each group, like the next two
  std::vector<uint64_t> sizes;
  std::vector<uint64_t> contents;

  /// The first difference as a sentence, or nothing. `paths`: of the shards that `this` is of.
  [[nodiscard]] std::string difference(const ShardDigest& saved, const std::vector<std::string>& paths) const;
};

/// Waits for the storage. Throws its error for the first shard that has one, and what `wait` throws.
[[nodiscard]] ShardDigest read_shard_digest(Storage& storage, const std::vector<std::string>& paths,
                                            const StorageWait& wait = {});

}  // namespace millrace

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "millrace/formats/storage/blocking_result.h"

namespace millrace {

class Storage;

/// What tells the content of a shard from another one's without reading it all.
struct ShardFingerprint {
  /// Bytes at either end of a shard that `first` and `last` are of: of a shorter shard all its bytes.
  static constexpr uint64_t kEndBytes = 4 << 10;

  std::string name = {};  ///< of the file, without folders
  uint64_t bytes = 0;     ///< of the file
  uint64_t first = 0;     ///< XXH3 (64 bits) of its first 4 KiB
  uint64_t last = 0;      ///< XXH3 (64 bits) of its last 4 KiB
  friend bool operator==(const ShardFingerprint&, const ShardFingerprint&) = default;
};

/// Reads both ends of the files, several at once; waits for the storage. The order is that of `paths`. Throws the
/// storage's error for the first file that has one, and at once what `wait` throws: the storage must then outlive the
/// reads in flight.
[[nodiscard]] std::vector<ShardFingerprint> read_shard_fingerprints(Storage& storage,
                                                                    std::span<const std::string> paths,
                                                                    const StorageWait& wait = {});
[[nodiscard]] ShardFingerprint read_shard_fingerprint(Storage& storage, const std::string& path);

/// What differs between the shard that an index was made of and the one that was found, in words; nothing when all is
/// equal.
[[nodiscard]] std::optional<std::string> difference(const ShardFingerprint& indexed, const ShardFingerprint& found);

}  // namespace millrace

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "millrace/formats/tfrecord/index/index.h"

namespace millrace {

class Storage;

struct IndexBuilderOptions {
  /// How the shard is stored. Default: as its first bytes say.
  std::optional<Compression> compression = {};
  /// Longer records are the error `record_too_large`. Default: 1 GiB.
  uint64_t max_record_bytes = uint64_t{1} << 30;
  /// Unpacked bytes from one seek point of a compressed shard to the next. Default: what keeps `kMostUnpackedBefore`.
  uint64_t seek_point_distance = ShardIndex::kPointDistance;
  /// Called with the bytes of the file that were read so far. Default: none.
  std::function<void(uint64_t)> on_progress = {};
};

/// Reads a whole shard and makes its index; waits for the storage. Throws the error of the first damage: only a whole
/// shard has an index. Takes some 2 MiB of memory besides the index and the longest record. Any thread.
[[nodiscard]] ShardIndex build_shard_index(Storage& storage, const std::string& path,
                                           const IndexBuilderOptions& options = {});

}  // namespace millrace

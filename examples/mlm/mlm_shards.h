#pragma once

#include <optional>
#include <string>

#include "examples/mlm/shard_statistics.h"
#include "millrace/formats/records/shards.h"

namespace millrace {

/// The folder that prepare_tfrecord_shards wrote, or its URL: `train/` and `validation/` with
/// `dataset-{index}-{count}.tfrecord` or
/// `.tfrecord.zst`, and `statistics.json`.
struct MlmShards {
  Shards train;
  std::optional<Shards> validation;  ///< nothing when the text was too short to have any
  /// Nothing without statistics.json: shards of another program, or a set that is not whole.
  std::optional<ShardStatistics> statistics;

  /// Throws MissingData when there are no training shards, `kInvalidArgument` when a name has no count, `kParse` for
  /// statistics that are none.
  static MlmShards find(const std::string& folder);
};

}  // namespace millrace

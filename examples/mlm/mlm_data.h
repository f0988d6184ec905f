#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "examples/mlm/shard_statistics.h"
#include "millrace/pipeline/dataset.h"

namespace millrace {

/// The folder that prepare_tfrecord_shards wrote: `train/` and `validation/` with `dataset-{index}-{count}.tfrecord` or
/// `.tfrecord.zst`, and `statistics.json`.
struct MlmShards {
  Shards train;
  std::optional<Shards> validation;  ///< nothing when the text was too short to have any
  /// Nothing without statistics.json: shards of another program, or a set that is not whole.
  std::optional<ShardStatistics> statistics;

  /// Throws `kInvalidArgument` when there are no training shards or a name has no count, `kParse` for statistics that
  /// are none.
  static MlmShards find(const std::string& folder);
};

struct MlmDataOptions {
  int64_t max_length = 128;                      ///< tokens in a row. Default: 128
  int64_t global_batch = 128;                    ///< rows. Default: 128
  int64_t shuffle = int64_t{1} << 18;            ///< rows in the shuffle buffer. Default: 2^18
  int64_t vocab_size = 0;                        ///< random ids are below it
  int32_t mask_token = 4;                        ///< Default: 4
  double mask_probability = 0.15;                ///< of a token to be chosen. Default: 0.15
  std::vector<int64_t> special_tokens = {0, 1};  ///< never masked. Default: [CLS] 0 and [SEP] 1
  uint64_t seed = 0;                             ///< of the order and the masks. Default: 0
  DamagePolicy damage = {};                      ///< what is done about damaged records. Default: an error
};

/// Batches to train on, forever: `input_ids` and `labels`, int32 [global_batch, max_length], `attention_mask`, int64.
/// Shards, rows and masks are drawn anew in each epoch; an epoch ends with its last whole batch.
[[nodiscard]] Dataset mlm_training_batches(const MlmShards& shards, const MlmDataOptions& options);

/// All validation rows in order, once, with the same masks each time; the last batch may be short.
[[nodiscard]] Dataset mlm_evaluation_batches(const MlmShards& shards, const MlmDataOptions& options);

/// As `mlm_training_batches`, of rows of random tokens that are no special ones: to measure with. One epoch that does
/// not end. The ids 0 to 4 are special.
[[nodiscard]] Dataset mlm_synthetic_batches(const MlmDataOptions& options);

}  // namespace millrace

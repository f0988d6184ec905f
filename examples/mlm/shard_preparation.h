#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "examples/mlm/shard_statistics.h"
#include "millrace/formats/compression/compression.h"
#include "millrace/trainer/run/row_groups.h"
#include "millrace/trainer/run/shard_set_writer.h"

namespace millrace {

class Tokenizer;

/// How a row becomes ids.
struct RowEncoder {
  /// Appends the ids of a row, with the special tokens around it. Called by many threads at once.
  std::function<void(std::string_view row, std::vector<int32_t>& ids)> encode;
  /// Ids are 0 to this, without it.
  int32_t vocabulary_size = 0;
  /// See `tokenizer_digest`; empty where there is no file.
  std::string tokenizer_digest = {};
  /// Tokens that are not ordinary: they are left out of the entropy.
  std::vector<int32_t> special_ids;
};

/// Encodes with a tokenizer. Special are what `SpecialTokens` finds for `path`, the file that it was read from.
RowEncoder encoder_of(const Tokenizer& tokenizer, const std::string& path);

struct PreparationProgress {
  int64_t rows = 0;
  int64_t records = 0;
  int64_t tokens = 0;
};

/// Of `ShardPreparationOptions::max_length`: 128 MiB of attention mask.
inline constexpr int64_t kMostRecordTokens = int64_t{1} << 24;

struct ShardPreparationOptions {
  /// Tokens in a record, up to `kMostRecordTokens`. Default: 128.
  int64_t max_length = 128;
  /// Which rows are cut together, and which are validation.
  GroupOptions groups;
  /// Records in a file. Default: 1,000.
  int64_t records_per_shard = 1000;
  /// How the files are stored. Default: as they are.
  Compression compression = Compression::kNone;
  /// Threads that encode, the caller among them; 0: one for each core. Default: 0.
  int threads = 0;
  /// Called after each group, by one thread at a time, not always the same. Default: nobody.
  std::function<void(const PreparationProgress&)> on_progress;
  /// Asked before each group: true ends the preparation without a result. Any thread. Default: never.
  std::function<bool()> stop_requested;
};

/// The set of shards of a masked language model, `kTrainAndValidation` in this order:
///
///     train/dataset-0-1000.tfrecord  train/dataset-1-1000.tfrecord  ...  train/dataset-9-318.tfrecord
///     validation/dataset-0-604.tfrecord
///
/// `dataset-{i}-{n}`: shard i of its split, n records in it; of zstd shards `.tfrecord.zst`. Throws `kInvalidArgument`
/// for `records_per_shard` below 1.
ShardSetOptions mlm_shard_set(int64_t records_per_shard, Compression compression);

/// Turns text into the shards of a masked language model in `folder` (`mlm_shard_set`), beside them `statistics.json`
/// and `split-train-records-count.txt`, which says `Total train records: 9318`, and that of the validation: the ids of
/// each group of rows are joined and cut into records of `max_length`, what is left of the group is dropped. A record
/// is a `tensorflow.Example` with the int64 features `input_ids` and `attention_mask` (all 1). The files are the same
/// for any number of threads. Groups are encoded in parallel; two for each thread are in memory at most.
///
/// Gives nothing when it was asked to stop. Throws `kInvalidArgument` when the text gives no record to train on, and
/// what the source, the encoder and the writer throw. In all these cases the folder stays as it was.
std::optional<ShardStatistics> prepare_shards(RowSource rows, const RowEncoder& encoder, const std::string& folder,
                                              const ShardPreparationOptions& options);

}  // namespace millrace

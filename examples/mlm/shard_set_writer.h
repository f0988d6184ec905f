#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "examples/mlm/shard_statistics.h"
#include "examples/mlm/split.h"
#include "millrace/formats/compression/compression.h"
#include "millrace/formats/storage/folder_lock.h"
#include "millrace/formats/tfrecord/writer.h"

namespace millrace {

/// Writes a data set of two splits as TFRecord shards into a folder:
///
///     train/dataset-0-1000.tfrecord  train/dataset-1-1000.tfrecord  ...  train/dataset-9-318.tfrecord
///     validation/dataset-0-604.tfrecord
///     split-train-records-count.txt        Total train records: 9318
///     split-validation-records-count.txt
///     statistics.json
///
/// `dataset-{i}-{n}`: shard i of its split, n records in it; of zstd shards `.tfrecord.zst`. All is written under
/// `.incomplete-shards` in the folder first; `commit` puts it in place, `statistics.json` last. Until then a set that
/// was there before stays as it was; then it is replaced as a whole: at no moment are there shards of both. A writer
/// destroyed without `commit` leaves nothing, a process that is killed leaves at most `.incomplete-shards`, or shards
/// of one set without `statistics.json`; the next writer clears both away. One writer a folder, which it locks; one
/// thread at a time.
///
///     ShardSetWriter writer("shards", 1000);
///     writer.write(Split::kTrain, record);
///     writer.commit(statistics);
class ShardSetWriter {
 public:
  /// Makes the folder when it is not there. Throws `kInvalidArgument` when `train` or `validation` in it hold files
  /// that are no shards of such a set, or another process writes there; `kIo`.
  ShardSetWriter(const std::string& folder, int64_t records_per_shard, Compression compression = Compression::kNone);
  ~ShardSetWriter();
  ShardSetWriter(const ShardSetWriter&) = delete;
  ShardSetWriter& operator=(const ShardSetWriter&) = delete;

  /// Throws `kIo` naming the file, for example when the disk is full; then only destruction is left.
  void write(Split split, std::string_view record);
  /// Ends the last shards, so that the numbers below are final.
  void finish_shards();
  int64_t num_records(Split split) const { return at(split).num_records; }
  int64_t num_shards(Split split) const { return at(split).num_shards; }
  /// Puts the whole set in place. After `finish_shards`.
  void commit(const ShardStatistics& statistics);

 private:
  struct SplitState {
    std::optional<RecordWriter> shard;
    int64_t num_shards = 0;
    int64_t num_records = 0;
  };
  SplitState& at(Split split) { return splits_[static_cast<size_t>(split)]; }
  const SplitState& at(Split split) const { return splits_[static_cast<size_t>(split)]; }
  void finish_shard(Split split);
  std::string shard_name(int64_t index, int64_t num_records) const;
  void clear_away() noexcept;
  std::filesystem::path counts_file(Split split) const;

  std::filesystem::path folder_;
  std::filesystem::path incomplete_;
  int64_t records_per_shard_;
  Compression compression_;
  bool made_folder_ = false;
  std::optional<FolderLock> lock_;
  std::array<SplitState, kSplits.size()> splits_;
};

}  // namespace millrace

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/formats/compression/compression.h"
#include "millrace/formats/storage/folder_lock.h"
#include "millrace/formats/tfrecord/writer.h"

namespace millrace {

/// A part of a data set that is read by itself.
struct ShardSplit {
  std::string folder = {};        ///< of its files, in the set's: `train`. Default: empty, the set's own
  int64_t records_per_shard = 0;  ///< Default: 0, all in one file, which is there also without a record
  /// The name of a file: its number in the split, from 0, and how many records are in it.
  std::function<std::string(int64_t index, int64_t num_records)> file_name = nullptr;  // no default
};

struct ShardSetOptions {
  std::vector<ShardSplit> splits = {};
  /// A regular expression (RE2) that the names of such sets' shards match, from the first character to the last: those
  /// of an earlier set are replaced, other files stand in the way.
  std::string shard_names = {};
  Compression compression = Compression::kNone;  ///< how the files are stored. Default: as they are
};

/// A text beside the shards: `statistics.json`.
struct ShardSetFile {
  std::string name = {};
  std::string text = {};
};

/// Writes a data set of several splits as TFRecord shards into a folder, whole or not at all. Everything is written
/// under `.incomplete-shards` in it; `commit` puts it in place, and the file that says that the set is whole comes
/// last. Until then a set that was there before stays as it was; then it is replaced as a whole: at no moment are there
/// shards of both. A writer destroyed without `commit` leaves nothing, a process that is killed leaves at most
/// `.incomplete-shards`, or shards of one set without the file that says that it is whole; the next writer clears both
/// away. One writer a folder, which it locks; one thread at a time.
///
///     ShardSetWriter writer("shards", {.splits = {{.folder = "train", .records_per_shard = 1000, .file_name = name}},
///                                      .shard_names = R"(dataset-\d+-\d+\.tfrecord)"});
///     writer.write(0, record);
///     writer.finish_shards();
///     writer.commit({{.name = "statistics.json", .text = text}});
class ShardSetWriter {
 public:
  /// Makes the folder when it is not there. Throws `kInvalidArgument` for options that cannot work, when a split's
  /// folder holds files that are no shards of such a set, or another process writes there; `kIo`.
  ShardSetWriter(const std::string& folder, ShardSetOptions options);
  ~ShardSetWriter();
  ShardSetWriter(const ShardSetWriter&) = delete;
  ShardSetWriter& operator=(const ShardSetWriter&) = delete;

  /// `split`: its place in the options. Throws `kIo` naming the file, for example when the disk is full; then only
  /// destruction is left.
  void write(size_t split, std::string_view record);
  /// Ends the last shards, so that the numbers below are final.
  void finish_shards();
  int64_t num_records(size_t split) const { return splits_.at(split).num_records; }
  int64_t num_shards(size_t split) const { return splits_.at(split).num_shards; }
  /// Ends the last shards and puts the whole set in place, or throws `kIo` naming the file, and the earlier set is
  /// where it was. `files`: the first says that the set is whole; those of these names that an earlier set has are
  /// replaced.
  void commit(const std::vector<ShardSetFile>& files);

 private:
  struct SplitState {
    std::optional<RecordWriter> shard = {};
    int64_t num_shards = 0;
    int64_t num_records = 0;
  };

  bool is_shard(const std::string& name) const;
  void require_only_shards() const;
  void require_only_shards(const std::filesystem::path& folder) const;
  std::vector<std::filesystem::path> entries_in(const std::filesystem::path& folder) const;
  void start_shard(size_t split);
  void finish_shard(size_t split);
  std::string shard_path(size_t split, int64_t num_records) const;
  void clear_away() noexcept;

  const std::filesystem::path folder_;
  const std::filesystem::path incomplete_;
  const ShardSetOptions options_;
  bool made_folder_ = false;
  bool failed_ = false;  // a record is not in its shard
  std::optional<FolderLock> lock_;
  std::vector<SplitState> splits_;
};

}  // namespace millrace

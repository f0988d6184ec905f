#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/formats/storage/output_file.h"
#include "millrace/formats/tfrecord/writer.h"
#include "millrace/trainer/run/shard_set_place.h"

namespace millrace {

/// Writes a data set of several splits as TFRecord shards into a folder, whole or not at all. Everything is written
/// under `.incomplete-shards` in it; `commit` puts it in place, and the file that says that the set is whole comes
/// last. Until then a set that was there before stays as it was; then it is replaced as a whole: at no moment are there
/// shards of both. A writer destroyed without `commit` leaves nothing, a process that is killed leaves at most
/// `.incomplete-shards`, or shards of one set without the file that says that it is whole; the next writer clears both
/// away. One writer a local folder, which it locks; one thread at a time.
///
/// In a folder of a bucket, `s3://BUCKET/FOLDER`, nothing is renamed: shards are written in the system's folder of
/// temporary files, sent from there as soon as they are whole, and are the folder's with `commit` (FolderUpload). Of
/// two that write there the last one's set stays.
///
///     ShardSetWriter writer("shards", {.splits = {{.folder = "train", .records_per_shard = 1000, .file_name = name}},
///                                      .shard_names = R"(dataset-\d+-\d+\.tfrecord)"});
///     writer.write(0, record);
///     writer.finish_shards();
///     writer.commit({{.name = "statistics.json", .text = text}});
class ShardSetWriter {
 public:
  /// Makes the folder when it is not there. Throws `kInvalidArgument` for options that cannot work, when a split's
  /// folder, or that of a bucket, holds files that are not of such a set, or another process writes to the local
  /// folder; `kIo`.
  ShardSetWriter(const std::string& folder, ShardSetOptions options);
  ~ShardSetWriter() = default;
  ShardSetWriter(const ShardSetWriter&) = delete;
  ShardSetWriter& operator=(const ShardSetWriter&) = delete;

  /// `split`: its place in the options. Throws `kIo` naming the file, for example when the disk is full; then only
  /// destruction is left.
  void write(size_t split, std::string_view record);
  /// Where a file of the caller's own may lie while the set is written, such as what is to be put in order first: it
  /// goes with the writer, that of a process that was killed with the next one's. `name`: no folder of a split.
  [[nodiscard]] std::string temporary_path(const std::string& name) const {
    return (place_->incomplete() / name).string();
  }
  /// A file elsewhere that belongs to the set, by its path or URL: written now, and put in place by `commit` while a
  /// local folder holds no whole set. So wherever a process is killed or `commit` fails, no set that says that it is
  /// whole stands beside such a file of another one; in a bucket it may, until the program is run again. Throws as
  /// `open_output_anywhere`.
  void add_elsewhere(const std::string& path, std::string_view text);
  /// Ends the last shards, so that the numbers below are final.
  void finish_shards();
  int64_t num_records(size_t split) const { return splits_.at(split).num_records; }
  int64_t num_shards(size_t split) const { return splits_.at(split).num_shards; }
  /// Ends the last shards and puts the whole set in place, or throws `kIo` naming the file, and the earlier set is
  /// where it was; with files elsewhere of which one was replaced, a local folder then holds no whole set. `files`:
  /// the first says that the set is whole; those of these names that an earlier set has are replaced.
  void commit(const std::vector<ShardSetFile>& files);

 private:
  struct SplitState {
    std::optional<RecordWriter> shard = {};
    int64_t num_shards = 0;
    int64_t num_records = 0;
  };

  void start_shard(size_t split);
  void finish_shard(size_t split);
  std::string shard_name(size_t split, int64_t num_records) const;
  std::string shard_path(const std::string& name) const { return (place_->incomplete() / name).string(); }

  const ShardSetOptions options_;
  bool failed_ = false;  // a record is not in its shard
  std::unique_ptr<ShardSetPlace> place_;
  std::set<std::string> names_;  // of the shards that are whole
  std::vector<std::unique_ptr<OutputFile>> elsewhere_;
  std::vector<SplitState> splits_;  // whose shards end before their place
};

}  // namespace millrace

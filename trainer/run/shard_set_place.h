#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "millrace/formats/compression/compression.h"
#include "millrace/formats/storage/output_file.h"

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
  /// Names of files that some of such sets have beside their shards: those of an earlier set go with it. Default: none
  std::vector<std::string> optional_files = {};
};

/// A text beside the shards: `statistics.json`.
struct ShardSetFile {
  std::string name = {};
  std::string text = {};
};

/// Whether the name of a file, without its folder, is one of the set's shards.
[[nodiscard]] bool is_shard_of(const ShardSetOptions& options, const std::string& name);
/// Throws `kInvalidArgument` where an entry of the set's folder cannot have the name.
void check_name_in_set(const std::string& name);

/// Where a set of shards comes to be, whole or not at all; destroyed before `commit` it leaves nothing, as
/// ShardSetWriter says. What it throws, too. One thread at a time.
class ShardSetPlace {
 public:
  virtual ~ShardSetPlace() = default;
  /// A local folder or one of a bucket. `options` must outlive it.
  [[nodiscard]] static std::unique_ptr<ShardSetPlace> open(const std::string& folder, const ShardSetOptions& options);

  /// Where shards are written, in a folder for each split.
  [[nodiscard]] virtual const std::filesystem::path& incomplete() const = 0;
  /// A shard is whole there. `name`: below the set's folder: `train/dataset-0-1000.tfrecord`.
  virtual void add(const std::string& name) = 0;
  /// Puts the set in place: its shards and these files, of which the first says that it is whole; before that one those
  /// `elsewhere` are committed.
  virtual void commit(const std::vector<ShardSetFile>& files,
                      const std::vector<std::unique_ptr<OutputFile>>& elsewhere) = 0;
};

}  // namespace millrace

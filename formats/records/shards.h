#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/formats/storage/storage.h"

namespace millrace {

/// One file of a sharded data set.
struct Shard {
  std::string path = {};
  /// Records that it is said to have; a reader that finds another number reports `cardinality`. Default: not known.
  std::optional<uint64_t> num_records = {};
  friend bool operator==(const Shard&, const Shard&) = default;
};

/// The files of a data set, in order. An immutable value: what a pattern matches is looked up when it is given, so an
/// empty match fails where it is written.
///
///     Shards::glob("wikitext/train/dataset-*.tfrecord").counts_from("dataset-{index}-{count}.tfrecord")
class Shards {
 public:
  /// Local files, or objects of `s3://BUCKET/KEY` and `gs://BUCKET/KEY`, that match `pattern` (`*`, `?`, `[a-z]`; not
  /// across `/`), sorted by the bytes of their paths. Left out are their indexes (`NAME.index`, unless the pattern
  /// itself ends so), what is not finished (`NAME.tmp-PID-N`), and folders whose names begin with `.`, or with `_` and
  /// have no `=`. In `http://` and `https://`, which cannot be listed, `{00..15}` stands for these numbers.
  ///
  /// `@LIST` are those that a local file, or an object at a URL, names: a path or URL in each line, in their order;
  /// lines that are empty or begin with `#` name none. Names in buckets are `located`.
  ///
  /// Throws kInvalidArgument where no file matches, a folder of another name does, or the pattern has `**`; kIo when a
  /// folder, a bucket or a list cannot be read.
  ///
  /// `progress`: of a long listing of a bucket. Default: null, nobody is told
  [[nodiscard]] static Shards glob(const std::string& pattern, const GlobProgress& progress = nullptr);
  /// The same in another storage.
  [[nodiscard]] static Shards glob(Storage& storage, const std::string& pattern);
  /// The files of several patterns, those of one after those of the other; a file that two of them match comes once.
  /// Throws what `glob` throws, also where only one of them matches nothing.
  [[nodiscard]] static Shards globs(const std::vector<std::string>& patterns);
  /// These files, in this order. Throws kInvalidArgument for an empty list or an empty path. Whether they are there is
  /// seen when they are opened; of a folder in a bucket that has a manifest they are the URLs of objects, which
  /// `located` finds.
  [[nodiscard]] static Shards files(std::vector<std::string> paths);

  /// Takes the number of records of each shard from its file name (without folders). In `name_pattern` `{count}` stands
  /// for the number and must be there once, `{index}` for the shard's number, which is only skipped, and `*` for
  /// anything. Throws kInvalidArgument when a name does not match or the sum of the numbers exceeds INT64_MAX, and
  /// names the shard. The numbers are promises: readers check them.
  [[nodiscard]] Shards counts_from(std::string_view name_pattern) const;

  /// Says how many records each shard has, one number for each. The numbers are promises: readers check them. Throws
  /// kInvalidArgument for another number of numbers, and when their sum exceeds INT64_MAX.
  [[nodiscard]] Shards with_counts(const std::vector<uint64_t>& counts) const;

  const std::vector<Shard>& list() const { return shards_; }
  size_t size() const { return shards_.size(); }
  const std::string& path(size_t index) const { return shards_[index].path; }
  /// Records that shard `index` is said to have.
  std::optional<uint64_t> count(size_t index) const { return shards_[index].num_records; }
  /// Records of all shards together, when every one has a number.
  std::optional<uint64_t> num_records() const;

  friend bool operator==(const Shards&, const Shards&) = default;

 private:
  explicit Shards(std::vector<Shard> shards) : shards_(std::move(shards)) {}

  std::vector<Shard> shards_;
};

}  // namespace millrace

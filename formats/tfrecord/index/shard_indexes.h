#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/formats/records/shards.h"
#include "millrace/formats/storage/blocking_result.h"
#include "millrace/formats/storage/storage.h"
#include "millrace/formats/tfrecord/index/index.h"
#include "millrace/formats/tfrecord/index/index_loader.h"

namespace millrace {

/// The indexes of all shards of a data set: where each of its records is. Records are numbered through all shards, in
/// the order of the shards. Takes 8 bytes a record, and some 130 a frame of zstd shards. Immutable; any thread.
class ShardIndexes {
 public:
  /// An index for each shard.
  ShardIndexes(const Shards& shards, std::vector<std::shared_ptr<const ShardIndex>> indexes);

  size_t num_shards() const { return indexes_.size(); }
  const std::string& path(size_t shard) const { return shards_.path(shard); }
  const ShardIndex& index(size_t shard) const { return *indexes_[shard]; }
  /// The number of a shard's first record; for `num_shards()` the number of records in all.
  uint64_t first_record(size_t shard) const { return first_records_[shard]; }
  uint64_t num_records() const { return first_records_.back(); }
  /// The shard that has a record below `num_records()`.
  size_t shard_of(uint64_t record) const;
  /// Of all records with their frames.
  uint64_t num_bytes() const { return num_bytes_; }
  /// What differs between two data sets whose records lie in other places or have other tags. 63 bits.
  uint64_t digest() const { return digest_; }
  /// What the indexes take.
  int64_t memory_bytes() const;

 private:
  const Shards shards_;
  const std::vector<std::shared_ptr<const ShardIndex>> indexes_;
  std::vector<uint64_t> first_records_;
  uint64_t num_bytes_ = 0;
  uint64_t digest_ = 0;
};

/// Reads the indexes of shards, several at once, without ever blocking. The rules are those of IndexLoader.
class ShardIndexesLoader {
 public:
  /// Nothing more is read when those that are there take more than `most_bytes` of memory.
  ShardIndexesLoader(Storage& storage, const Shards& shards, int64_t most_bytes, std::function<void()> wake);

  /// False while the storage has not answered all: `wake` will be called. Throws `kMemoryBudget` when all of them would
  /// take too much.
  [[nodiscard]] bool done();
  /// Only when done, once. Throws `kIndex` when a shard has no index, naming the command that makes it, or one that is
  /// broken or of a file of another name, `kCardinality` when a shard is said to have another number of records, and
  /// the storage's errors.
  [[nodiscard]] std::shared_ptr<const ShardIndexes> take();

 private:
  struct InFlight {
    size_t shard;
    std::unique_ptr<IndexLoader> loader;
  };

  void add(std::shared_ptr<const ShardIndex> index, size_t shard);

  Storage& storage_;
  const Shards shards_;
  const int64_t most_bytes_;
  const std::function<void()> wake_;
  int64_t bytes_ = 0;  // that `indexes_` take
  size_t next_ = 0;    // shard
  std::vector<InFlight> in_flight_;
  std::vector<std::shared_ptr<const ShardIndex>> indexes_;
  std::vector<std::optional<Error>> problems_;
};

/// The same; waits for the storage. What `wait` throws ends it. Default: all the memory that they take.
[[nodiscard]] std::shared_ptr<const ShardIndexes> load_shard_indexes(Storage& storage, const Shards& shards,
                                                                     int64_t most_bytes = INT64_MAX,
                                                                     const StorageWait& wait = {});

}  // namespace millrace

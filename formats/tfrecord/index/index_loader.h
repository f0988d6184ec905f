#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "millrace/formats/storage/storage.h"
#include "millrace/formats/tfrecord/index/index.h"

namespace millrace {

/// Reads the index of a shard, if it has one, without ever blocking.
///
///     IndexLoader loader(storage, "train-0.tfrecord", wake);
///     if (!loader.done()) return Poll::kPending;   // wake is called when it is done
///     ShardReader reader(storage, pool, path, {.index = loader.index()}, wake);
///
/// Whether the index is of the shard's present content is found by the ShardReader. `done` and what follows it are
/// called by one thread at a time; the rules of `wake` and of destruction are those of ShardReader.
class IndexLoader {
 public:
  /// One of more bytes than `most_bytes` is not read: `kMemoryBudget`.
  IndexLoader(Storage& storage, const std::string& shard, std::function<void()> wake, uint64_t most_bytes = UINT64_MAX);
  ~IndexLoader();
  IndexLoader(const IndexLoader&) = delete;
  IndexLoader& operator=(const IndexLoader&) = delete;

  /// False while the storage has not answered: `wake` will be called.
  [[nodiscard]] bool done();
  /// Null when there is no such file, or `problem`. Only when done.
  const std::shared_ptr<const ShardIndex>& index() const { return index_; }
  /// Why an index that is there cannot be used. Only when done.
  const std::optional<Error>& problem() const { return problem_; }

 private:
  class Read;
  const std::string path_;
  std::shared_ptr<Read> read_;  // null: done
  std::shared_ptr<const ShardIndex> index_;
  std::optional<Error> problem_;
};

}  // namespace millrace

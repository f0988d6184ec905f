#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace millrace {

class Storage;

/// Digests of the files that a dataset reads, in order: of each its name without the folder, its size, and its first
/// and last 4 KiB. Neighbours share a digest when there are more than 32 files, so a state stays small.
struct ShardDigest {
  static constexpr size_t kMostGroups = 32;

  int64_t num_shards = 0;
  std::vector<uint64_t> names;  ///< one for each group, like the next two
  std::vector<uint64_t> sizes;
  std::vector<uint64_t> contents;

  /// The first difference as a sentence, or nothing. `paths`: of the shards that `this` is of.
  [[nodiscard]] std::string difference(const ShardDigest& saved, const std::vector<std::string>& paths) const;
};

/// Reads the digest of the shards when it is first asked for, which takes some microseconds a shard. Any thread.
class ShardDigestReader {
 public:
  /// `storage`: null for local files.
  ShardDigestReader(std::vector<std::string> paths, std::shared_ptr<Storage> storage)
      : paths_(std::move(paths)), storage_(std::move(storage)) {}
  /// A digest that is known.
  explicit ShardDigestReader(ShardDigest digest) : digest_(std::move(digest)) {}

  /// Blocks while the files are read. Throws `kIo` naming the shard.
  const ShardDigest& digest();
  const std::vector<std::string>& paths() const { return paths_; }

 private:
  const std::vector<std::string> paths_;
  const std::shared_ptr<Storage> storage_;
  std::mutex mutex_;
  std::optional<ShardDigest> digest_;
};

}  // namespace millrace

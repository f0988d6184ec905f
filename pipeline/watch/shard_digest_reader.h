#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "millrace/pipeline/plan/shard_digest.h"
#include "millrace/pipeline/stall.h"
#include "millrace/pipeline/watch/file_versions.h"

namespace millrace {

/// Reads the digest of the shards when it is first asked for, which takes some microseconds a shard. Any thread.
class ShardDigestReader {
 public:
  /// `storage`: null for local files. `versions`: of the files that the pipeline reads, so that the digest is of these.
  /// `watchdog`, `on_stall`: as in StartOptions.
  ShardDigestReader(std::vector<std::string> paths, std::shared_ptr<Storage> storage,
                    std::shared_ptr<FileVersions> versions, double watchdog = 0,
                    std::function<void(const Stall&)> on_stall = nullptr);
  /// A digest that is known.
  explicit ShardDigestReader(ShardDigest digest);
  /// Waits for reads of local files in flight, after a stall that was thrown.
  ~ShardDigestReader();

  /// Blocks while the files are read. Throws `kIo` naming the shard, and what the watchdog throws: the next call reads
  /// them again. Inside the watchdog's `on_stall` that this very call made it throws `kInvalidArgument`. `caller`: whom
  /// the watchdog calls the one who waits.
  const ShardDigest& digest(std::string_view caller);
  const std::vector<std::string>& paths() const { return paths_; }

 private:
  const std::vector<std::string> paths_;
  const std::shared_ptr<Storage> storage_;
  const std::shared_ptr<FileVersions> versions_;
  const double watchdog_ = 0;
  const std::function<void(const Stall&)> on_stall_;
  std::mutex mutex_;
  struct Reading;
  std::unique_ptr<Reading> reading_;      // while files are read, and after a stall that was thrown
  bool left_in_flight_ = false;           // reads, by a call that the watchdog ended: they may never return
  std::atomic<std::thread::id> telling_;  // the thread inside `on_stall`
  std::optional<ShardDigest> digest_;
};

}  // namespace millrace

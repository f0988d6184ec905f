#include "millrace/pipeline/watch/shard_digest_reader.h"

#include <utility>

#include <fmt/format.h>

#include "millrace/formats/storage/remote/io_threads.h"
#include "millrace/formats/storage/remote/routed_storage.h"
#include "millrace/pipeline/run/stage_statistics.h"
#include "millrace/pipeline/watch/stall_report.h"
#include "millrace/pipeline/watch/stall_timer.h"
#include "millrace/pipeline/watch/watched_storage.h"

namespace millrace {

// A read that never returns keeps its threads, as those of a pipeline.
struct ShardDigestReader::Reading {
  Reading(std::shared_ptr<Storage> storage, std::shared_ptr<FileVersions> versions)
      : watched(std::make_shared<VersionCheckedStorage>(
            storage != nullptr ? std::move(storage) : std::make_shared<RoutedStorage>(threads), std::move(versions))) {}
  ~Reading() { threads.stop(); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  IoThreads threads;
  WatchedStorage watched;
};

ShardDigestReader::ShardDigestReader(std::vector<std::string> paths, std::shared_ptr<Storage> storage,
                                     std::shared_ptr<FileVersions> versions, double watchdog,
                                     std::function<void(const Stall&)> on_stall)
    : paths_(std::move(paths)),
      storage_(std::move(storage)),
      versions_(std::move(versions)),
      watchdog_(watchdog),
      on_stall_(std::move(on_stall)) {}

ShardDigestReader::ShardDigestReader(ShardDigest digest) : digest_(std::move(digest)) {}

ShardDigestReader::~ShardDigestReader() = default;

const ShardDigest& ShardDigestReader::digest(std::string_view caller) {
  if (telling_ == std::this_thread::get_id()) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("{} was called inside the on_stall that it had called: it waits already", caller));
  }
  const std::lock_guard lock(mutex_);
  if (digest_) return *digest_;
  if (!reading_) reading_ = std::make_unique<Reading>(storage_, versions_);
  StorageWait wait;
  std::optional<StallTimer> still;
  if (watchdog_ != 0) {
    still.emplace(watchdog_, on_stall_);
    wait.poll_interval = still->interval();
    wait.on_poll = [&, began = now_ns()] {
      const WatchedStorage& watched = reading_->watched;
      if (!still->look(watched.answers())) return;
      telling_ = std::this_thread::get_id();
      try {
        still->tell(describe_stall({.call = caller,
                                    .still_seconds = still->seconds(),
                                    .waiting_seconds = 1e-9 * static_cast<double>(now_ns() - began),
                                    .files = watched.files()}));
      } catch (...) {
        telling_ = std::thread::id();
        left_in_flight_ = true;
        throw;
      }
      telling_ = std::thread::id();
    };
  }
  try {
    digest_ = read_shard_digest(reading_->watched, paths_, wait);
  } catch (...) {
    if (!left_in_flight_) reading_.reset();
    throw;
  }
  if (!left_in_flight_) reading_.reset();
  return *digest_;
}

}  // namespace millrace

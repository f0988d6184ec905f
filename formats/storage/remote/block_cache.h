#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "millrace/formats/columnar/buffer.h"
#include "millrace/formats/storage/local.h"
#include "millrace/formats/storage/remote/cache_block.h"
#include "millrace/formats/storage/remote/cache_writer.h"
#include "millrace/formats/storage/remote/disk_cache_options.h"
#include "millrace/formats/storage/remote/io_threads.h"

namespace millrace {

/// An object of which blocks may be in a cache, for all who read it at a time. Any thread.
class CachedObject {
 public:
  enum class State : uint8_t {
    kAbsent,
    kComing,   ///< what comes of it is written
    kPresent,  ///< or was, when somebody looked
  };

  explicit CachedObject(CacheObject files)
      : files_(std::move(files)), blocks_(static_cast<size_t>(files_.num_blocks())) {}
  const CacheObject& files() const { return files_; }
  State state(uint64_t block) const { return blocks_[static_cast<size_t>(block)].state.load(); }
  void set_state(uint64_t block, State state) { blocks_[static_cast<size_t>(block)].state = state; }
  /// It is not there any more; what may be coming in its place stays.
  void set_lost(uint64_t block) {
    State expected = State::kPresent;
    blocks_[static_cast<size_t>(block)].state.compare_exchange_strong(expected, State::kAbsent);
  }
  [[nodiscard]] bool is_fully_cached() const;
  /// Looks at the disk, in one listing.
  void load();
  /// Whether a use of a block is to be written down: it was not in the last minute.
  [[nodiscard]] bool is_use_due(uint64_t block);

 private:
  struct Block {
    std::atomic<State> state = State::kAbsent;
    std::atomic<int64_t> noted_at = 0;  // seconds of the steady clock; 0: never
  };

  const CacheObject files_;
  std::vector<Block> blocks_;
};

/// What DiskCache is behind its public face: which blocks there are, and the threads that write and read them. Lives
/// until the process ends. Any thread.
class BlockCache : public std::enable_shared_from_this<BlockCache> {
 public:
  explicit BlockCache(DiskCacheOptions options);

  const std::string& folder() const { return options_.folder; }
  void set_bytes(uint64_t bytes) { bytes_ = bytes; }
  /// Where blocks are read.
  LocalStorage& files() { return files_; }

  /// Gives `take` an object, at once where somebody reads it already, else when the disk was looked at. Null where
  /// there is no memory for it.
  void find(CacheObject files, std::function<void(std::shared_ptr<CachedObject>)> take);
  /// A request for a block from its beginning on is sent: what comes of it is to be written, unless too much is
  /// already.
  void begin(const std::shared_ptr<CachedObject>& object, uint64_t block) noexcept;
  /// Bytes have come from the store, from `offset` of the object on: those of blocks that were begun are copied.
  void offer(const std::shared_ptr<CachedObject>& object, uint64_t offset, std::span<const std::byte> bytes) noexcept;
  /// A block was not there any more, or is damaged, and is removed then.
  void forget(const std::shared_ptr<CachedObject>& object, uint64_t block, bool is_damaged) noexcept;
  /// A block was opened to be read.
  void note_use(const std::shared_ptr<CachedObject>& object, uint64_t block) noexcept;
  void note_hit(size_t bytes) noexcept { hit_bytes_ += bytes; }
  void note_uncached() noexcept { ++uncached_files_; }

  bool flush(std::chrono::milliseconds most);
  /// At the end of the process: nothing is left of blocks that are not whole.
  void end(std::chrono::milliseconds most);
  [[nodiscard]] DiskCacheStatistics statistics() const;

 private:
  using Clock = std::chrono::steady_clock;
  // A block that comes.
  struct Coming {
    std::shared_ptr<CachedObject> object;
    uint64_t bytes = 0;  // of it that came, also twice
    Clock::time_point at = Clock::now();
  };
  using Key = std::pair<const CachedObject*, uint64_t>;  // and the number of the block

  std::shared_ptr<CachedObject> load(CacheObject files) noexcept;
  bool has_room();
  void give_up(Key key) noexcept;
  void submit(IoThreads& threads, std::function<void()> function);
  void write(const std::shared_ptr<CachedObject>& object, uint64_t block, uint64_t offset,
             std::span<const std::byte> bytes) noexcept;
  std::optional<uint64_t> try_to_write(const CacheObject& object, uint64_t block, uint64_t offset,
                                       std::span<const std::byte> bytes);
  void evict();
  void make_room() noexcept;
  void fail() noexcept;

  const DiskCacheOptions options_;
  std::atomic<uint64_t> bytes_;
  std::atomic<uint64_t> hit_bytes_{0};
  std::atomic<uint64_t> missed_bytes_{0};
  std::atomic<uint64_t> written_bytes_{0};
  std::atomic<uint64_t> damaged_blocks_{0};
  std::atomic<uint64_t> uncached_files_{0};
  std::atomic<uint64_t> most_{0};  // bytes that it may have, as it was looked at last; 0: not yet

  mutable std::mutex mutex_;
  std::condition_variable done_;
  std::map<std::string, std::weak_ptr<CachedObject>> objects_;
  std::map<Key, Coming> coming_;
  uint64_t waiting_bytes_ = 0;  // that are copied and not written
  size_t waiting_ = 0;          // functions for the threads
  uint64_t dropped_bytes_ = 0;
  std::string ended_;

  BufferPool copies_;  // of what waits: fresh memory for each would cost as much as its bytes do

  // Of the writing thread.
  CacheWriter writer_;
  std::optional<uint64_t> looked_for_;  // at what is there, to bring it down to so many bytes
  uint64_t since_look_ = 0;             // bytes that were written
  int failures_ = 0;                    // since a block became whole

  IoThreads reading_;
  LocalStorage files_{reading_};
  IoThreads writing_{1};
};

}  // namespace millrace

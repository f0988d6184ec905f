#include "millrace/formats/storage/remote/block_cache.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include <sys/resource.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/cache_folder.h"

namespace millrace {
namespace {

using State = CachedObject::State;

// That wait to be written: beyond the first no block is begun, and of none a part taken beyond the second.
constexpr uint64_t kManyWaiting = 32 << 20;
constexpr uint64_t kMostWaiting = 64 << 20;
// Blocks that come at a time, each of which is an open file: some of each shard that is read in turn.
constexpr size_t kMostComing = 128;
// After so long without a byte one makes room for others.
constexpr std::chrono::seconds kComingLifetime{30};
// Of each part, beside its bytes.
constexpr uint64_t kPerPart = 512;
// Things to be done by the thread that writes, but for bytes: beyond it they are not.
constexpr size_t kMostToDo = 10'000;
constexpr int kMostFailures = 3;

size_t most_coming(uint64_t most_bytes) {
  size_t most = kMostComing;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) most = std::min<uint64_t>(most, limit.rlim_cur / 8);
  if (most_bytes > 0) most = std::min<uint64_t>(most, most_bytes / kCacheBlockBytes / 4);
  return std::max<size_t>(most, 1);
}

}  // namespace

bool CachedObject::is_fully_cached() const {
  return std::ranges::all_of(blocks_, [](const Block& block) { return block.state.load() == State::kPresent; });
}

void CachedObject::load() {
  std::error_code code;
  for (std::filesystem::directory_iterator next(files_.folder, code), end; !code && next != end; next.increment(code)) {
    const std::string name = next->path().filename().string();
    uint64_t block = 0;
    const auto [rest, error] = std::from_chars(name.data(), name.data() + name.size(), block);
    if (error != std::errc() || rest != name.data() + name.size() || block >= blocks_.size()) continue;
    if (files_.path(block) == next->path().string()) set_state(block, State::kPresent);
  }
}

bool CachedObject::is_use_due(uint64_t block) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count() + 1;
  std::atomic<int64_t>& noted_at = blocks_[static_cast<size_t>(block)].noted_at;
  int64_t before = noted_at;
  return (before == 0 || seconds - before >= 60) && noted_at.compare_exchange_strong(before, seconds);
}

BlockCache::BlockCache(DiskCacheOptions options)
    : options_(std::move(options)), bytes_(options_.bytes), writer_(options_.folder) {
  copies_.set_limit(kMostWaiting, 0, nullptr);
}

void BlockCache::find(CacheObject files, std::function<void(std::shared_ptr<CachedObject>)> take) {
  std::shared_ptr<CachedObject> known;
  {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(files.hash);
    if (found != objects_.end()) known = found->second.lock();
    if (known == nullptr) {
      submit(reading_,
             [this, files = std::move(files), take = std::move(take)]() mutable { take(load(std::move(files))); });
      return;
    }
  }
  take(std::move(known));
}

std::shared_ptr<CachedObject> BlockCache::load(CacheObject files) noexcept try {
  auto object = std::make_shared<CachedObject>(std::move(files));
  object->load();
  std::vector<std::string> used;  // soon, so that none goes while it is read
  for (uint64_t block = 0; block < object->files().num_blocks(); ++block) {
    if (object->state(block) != State::kPresent || !object->is_use_due(block)) continue;
    used.push_back(object->files().path(block));
  }
  const std::lock_guard lock(mutex_);
  std::weak_ptr<CachedObject>& place = objects_[object->files().hash];
  if (std::shared_ptr<CachedObject> other = place.lock()) return other;
  place = object;
  std::erase_if(objects_, [](const auto& entry) { return entry.second.expired(); });
  if (!used.empty() && waiting_ < kMostToDo) {
    submit(writing_, [used = std::move(used)] { note_use_of_blocks(used); });
  }
  return object;
} catch (...) {
  return nullptr;  // it is read without a cache
}

void BlockCache::begin(const std::shared_ptr<CachedObject>& object, uint64_t block) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (!ended_.empty() || object->state(block) != State::kAbsent || waiting_bytes_ > kManyWaiting || !has_room())
      return;
    coming_.emplace(Key{object.get(), block}, Coming{.object = object});
    object->set_state(block, State::kComing);
  } catch (...) {  // it is not written
  }
}

// For one more block that comes. Under the lock.
bool BlockCache::has_room() {
  const size_t most = most_coming(most_ == 0 ? bytes_.load() : most_.load());
  if (coming_.size() < most) return true;
  // Of those that do not get on the one of which least has come.
  const auto oldest = Clock::now() - kComingLifetime;
  const std::pair<const Key, Coming>* least = nullptr;
  for (const auto& entry : coming_) {
    if (entry.second.at < oldest && (least == nullptr || entry.second.bytes < least->second.bytes)) least = &entry;
  }
  if (least != nullptr) give_up(least->first);
  return coming_.size() < most;
}

// Under the lock.
void BlockCache::give_up(Key key) noexcept {
  const auto found = coming_.find(key);
  if (found == coming_.end()) return;
  const std::shared_ptr<CachedObject> object = found->second.object;
  dropped_bytes_ += found->second.bytes;
  coming_.erase(found);
  object->set_state(key.second, State::kAbsent);
  try {
    submit(writing_, [this, object, block = key.second] { writer_.drop(object->files(), block); });
  } catch (...) {  // what has come stays until it is begun again
  }
}

void BlockCache::offer(const std::shared_ptr<CachedObject>& object, uint64_t offset,
                       std::span<const std::byte> bytes) noexcept {
  missed_bytes_ += bytes.size();
  while (!bytes.empty()) {
    const uint64_t block = offset / kCacheBlockBytes;
    const uint64_t within = offset % kCacheBlockBytes;
    const auto size = static_cast<size_t>(std::min<uint64_t>(bytes.size(), kCacheBlockBytes - within));
    const std::span<const std::byte> part = bytes.first(size);
    bytes = bytes.subspan(size);
    offset += size;
    if (object->state(block) != State::kComing) continue;
    const Key key{object.get(), block};
    try {
      const Buffer copy = copies_.allocate(size);
      std::memcpy(copy->data(), part.data(), size);
      const std::lock_guard lock(mutex_);
      const auto found = coming_.find(key);
      if (found == coming_.end()) continue;
      found->second.bytes += size;
      found->second.at = Clock::now();
      if (waiting_bytes_ + size + kPerPart > kMostWaiting) {
        give_up(key);
        continue;
      }
      submit(writing_, [this, object, block, within, copy, size] {
        write(object, block, within, {copy->data(), size});
      });
      waiting_bytes_ += size + kPerPart;
    } catch (...) {  // no memory: a part of the block is missing
      const std::lock_guard lock(mutex_);
      give_up(key);
    }
  }
}

void BlockCache::forget(const std::shared_ptr<CachedObject>& object, uint64_t block, bool is_damaged) noexcept {
  object->set_lost(block);
  if (!is_damaged) return;
  ++damaged_blocks_;
  try {
    const std::lock_guard lock(mutex_);
    submit(writing_, [object, block] {
      if (object->state(block) != State::kAbsent) return;  // another one takes its place
      std::error_code code;
      std::filesystem::remove(object->files().path(block), code);
    });
  } catch (...) {  // whoever reads it next sees the damage, too
  }
}

void BlockCache::note_use(const std::shared_ptr<CachedObject>& object, uint64_t block) noexcept {
  if (!object->is_use_due(block)) return;
  try {
    const std::lock_guard lock(mutex_);
    if (waiting_ >= kMostToDo) return;
    submit(writing_, [object, block] { note_use_of_blocks({object->files().path(block)}); });
  } catch (...) {  // it goes sooner
  }
}

// Under the lock.
void BlockCache::submit(IoThreads& threads, std::function<void()> function) {
  ++waiting_;
  try {
    threads.submit([self = shared_from_this(), function = std::move(function)]() mutable {
      try {
        std::exchange(function, nullptr)();
      } catch (...) {  // no memory
      }
      const std::lock_guard lock(self->mutex_);
      if (--self->waiting_ == 0) self->done_.notify_all();
    });
  } catch (...) {
    --waiting_;
    throw;
  }
}

// On the writing thread.
void BlockCache::write(const std::shared_ptr<CachedObject>& object, uint64_t block, uint64_t offset,
                       std::span<const std::byte> bytes) noexcept {
  const Key key{object.get(), block};
  bool is_wanted = false;
  {
    const std::lock_guard lock(mutex_);
    is_wanted = coming_.contains(key);
  }
  std::optional<uint64_t> written;
  bool has_failed = false;
  try {
    if (is_wanted) written = try_to_write(object->files(), block, offset, bytes);
  } catch (const NoRoomError&) {  // something beside it takes it
    has_failed = true;
    make_room();
    fail();
  } catch (...) {
    has_failed = true;
    fail();
  }
  const std::lock_guard lock(mutex_);
  waiting_bytes_ -= bytes.size() + kPerPart;
  if (has_failed || (written && *written == 0)) give_up(key);
  if (!written || *written == 0) return;
  coming_.erase(key);
  object->set_state(block, State::kPresent);
}

std::optional<uint64_t> BlockCache::try_to_write(const CacheObject& object, uint64_t block, uint64_t offset,
                                                 std::span<const std::byte> bytes) {
  if (looked_for_ != bytes_) evict();
  const auto written = writer_.write(object, block, offset, bytes);
  if (written && *written > 0) {
    failures_ = 0;
    written_bytes_ += *written;
    since_look_ += *written;
    if (since_look_ > most_ / 100) evict();
  }
  return written;
}

// Where it cannot look the next one will.
void BlockCache::evict() {
  try {
    since_look_ = 0;
    looked_for_ = bytes_;
    most_ = evict_from_cache(options_.folder, *looked_for_).most;
  } catch (const ErrorException&) {
    looked_for_ = std::nullopt;
  }
}

void BlockCache::make_room() noexcept {
  try {
    const CacheSize size = evict_from_cache(options_.folder, bytes_, /*waits=*/true);
    evict_from_cache(options_.folder, std::max<uint64_t>(size.bytes / 20 * 19, 1));
  } catch (...) {  // then there is none
  }
}

// Inside a handler: a block could not be written.
void BlockCache::fail() noexcept {
  if (++failures_ < kMostFailures) return;
  try {
    const std::string why = current_exception_as_error().to_string();
    {
      const std::lock_guard lock(mutex_);
      if (!ended_.empty()) return;
      ended_ = why;
    }
    if (options_.on_end) options_.on_end(why);
  } catch (...) {  // the next one tells
  }
}

void BlockCache::end(std::chrono::milliseconds most) {
  if (!flush(most)) return;
  {
    const std::lock_guard lock(mutex_);
    while (!coming_.empty()) give_up(coming_.begin()->first);
  }
  flush(most);
}

bool BlockCache::flush(std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  return done_.wait_for(lock, most, [this] { return waiting_ == 0; });
}

DiskCacheStatistics BlockCache::statistics() const {
  const std::lock_guard lock(mutex_);
  return {.hit_bytes = hit_bytes_,
          .missed_bytes = missed_bytes_,
          .written_bytes = written_bytes_,
          .dropped_bytes = dropped_bytes_,
          .damaged_blocks = damaged_blocks_,
          .uncached_files = uncached_files_,
          .ended = ended_};
}

}  // namespace millrace

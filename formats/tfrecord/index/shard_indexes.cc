#include "millrace/formats/tfrecord/index/shard_indexes.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace millrace {
namespace {

// A remote store answers many shards at once.
constexpr size_t kInFlight = 16;

// The offsets and tags of all records.
uint64_t digest_of(const std::vector<std::shared_ptr<const ShardIndex>>& indexes) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  std::array<uint64_t, 512> words;
  size_t used = 0;
  const auto add = [&](uint64_t word) {
    words[used++] = word;
    if (used < words.size()) return;
    XXH3_64bits_update(&state, words.data(), sizeof(words));
    used = 0;
  };
  for (const auto& index : indexes) {
    add(index->num_records());
    for (uint64_t i = 0; i < index->num_records(); ++i) add(ShardIndex::entry(index->offset(i), index->tag(i)));
    add(index->num_bytes());
  }
  XXH3_64bits_update(&state, words.data(), used * sizeof(uint64_t));
  return XXH3_64bits_digest(&state) >> 1;
}

// In memory.
int64_t bytes_of(const ShardIndex& index) {
  return static_cast<int64_t>((index.num_records() + 1) * sizeof(uint64_t) + index.points().size_bytes());
}

[[noreturn]] void refuse_missing(const Shards& shards, const std::vector<size_t>& missing) {
  constexpr size_t kMostNamed = 4;
  std::string command = "dataset_index";
  for (size_t i = 0; i < std::min(missing.size(), kMostNamed); ++i) command += ' ' + shards.path(missing[i]);
  if (missing.size() > kMostNamed) command += " …";
  throw ErrorException(ErrorCode::kIndex,
                       fmt::format("{} of {} shards have no index; run: {}", missing.size(), shards.size(), command));
}

}  // namespace

ShardIndexes::ShardIndexes(const Shards& shards, std::vector<std::shared_ptr<const ShardIndex>> indexes)
    : shards_(shards), indexes_(std::move(indexes)), digest_(digest_of(indexes_)) {
  first_records_.reserve(indexes_.size() + 1);
  first_records_.push_back(0);
  for (const auto& index : indexes_) {
    first_records_.push_back(first_records_.back() + index->num_records());
    num_bytes_ += index->num_bytes();
  }
}

size_t ShardIndexes::shard_of(uint64_t record) const {
  const auto after = std::upper_bound(first_records_.begin(), first_records_.end(), record);
  return static_cast<size_t>(after - first_records_.begin()) - 1;
}

int64_t ShardIndexes::memory_bytes() const {
  int64_t bytes = 0;
  for (const auto& index : indexes_) bytes += bytes_of(*index);
  return bytes;
}

ShardIndexesLoader::ShardIndexesLoader(Storage& storage, const Shards& shards, int64_t most_bytes,
                                       std::function<void()> wake)
    : storage_(storage),
      shards_(shards),
      most_bytes_(most_bytes),
      wake_(std::move(wake)),
      indexes_(shards.size()),
      problems_(shards.size()) {}

void ShardIndexesLoader::add(std::shared_ptr<const ShardIndex> index, size_t shard) {
  bytes_ += bytes_of(*index);
  indexes_[shard] = std::move(index);
  if (bytes_ <= most_bytes_) return;
  const auto read = std::count_if(indexes_.begin(), indexes_.end(), [](const auto& one) { return one != nullptr; });
  in_flight_.clear();
  throw ErrorException(ErrorCode::kMemoryBudget,
                       fmt::format("the indexes of {} of {} shards take {} bytes of memory, no more than {} may be "
                                   "kept for the whole run, half of the memory budget",
                                   read, shards_.size(), bytes_, most_bytes_));
}

bool ShardIndexesLoader::done() {
  while (true) {
    while (next_ < shards_.size() && in_flight_.size() < kInFlight) {
      in_flight_.push_back(
          {next_, std::make_unique<IndexLoader>(storage_, shards_.path(next_), wake_,
                                                static_cast<uint64_t>(std::max<int64_t>(most_bytes_ - bytes_, 0)))});
      ++next_;
    }
    for (size_t i = 0; i < in_flight_.size();) {
      if (!in_flight_[i].loader->done()) {
        ++i;
        continue;
      }
      const InFlight one = std::move(in_flight_[i]);
      in_flight_.erase(in_flight_.begin() + static_cast<std::ptrdiff_t>(i));
      problems_[one.shard] = one.loader->problem();
      if (problems_[one.shard] && problems_[one.shard]->code == ErrorCode::kMemoryBudget) {
        in_flight_.clear();
        throw ErrorException(*problems_[one.shard]);
      }
      if (one.loader->index() != nullptr) add(one.loader->index(), one.shard);
    }
    if (next_ == shards_.size() || in_flight_.size() == kInFlight) return in_flight_.empty();
  }
}

std::shared_ptr<const ShardIndexes> ShardIndexesLoader::take() {
  std::vector<size_t> missing;
  for (size_t i = 0; i < shards_.size(); ++i) {
    if (std::optional<Error>& problem = problems_[i]) {
      if (problem->code == ErrorCode::kIndex) problem->message += "; run: dataset_index " + shards_.path(i);
      throw ErrorException(std::move(*problem));
    }
    if (indexes_[i] == nullptr) missing.push_back(i);
  }
  if (!missing.empty()) refuse_missing(shards_, missing);
  for (size_t i = 0; i < shards_.size(); ++i) {
    const std::string& path = shards_.path(i);
    const std::string name = path.substr(path.rfind('/') + 1);
    if (const std::string& made_of = indexes_[i]->fingerprint().name; made_of != name) {
      throw ErrorException({.code = ErrorCode::kIndex,
                            .message = fmt::format("the index does not belong to this file: it was made of '{}'; "
                                                   "run: dataset_index {}",
                                                   made_of, path),
                            .shard = path});
    }
    const uint64_t found = indexes_[i]->num_records();
    if (const std::optional<uint64_t> said = shards_.count(i); said && *said != found) {
      throw ErrorException({.code = ErrorCode::kCardinality,
                            .message = fmt::format("the shard has {} records, expected {}", found, *said),
                            .shard = path});
    }
  }
  return std::make_shared<const ShardIndexes>(shards_, std::move(indexes_));
}

std::shared_ptr<const ShardIndexes> load_shard_indexes(Storage& storage, const Shards& shards, int64_t most_bytes,
                                                       const StorageWait& wait) {
  std::mutex mutex;
  std::condition_variable changed;
  bool woken = false;
  ShardIndexesLoader loader(storage, shards, most_bytes, [&] {
    // Inside the lock: the one who waits may be gone as soon as it is released.
    const std::lock_guard lock(mutex);
    woken = true;
    changed.notify_one();
  });
  while (!loader.done()) {
    std::unique_lock lock(mutex);
    wait.wait(changed, lock, [&] { return woken; });
    woken = false;
  }
  return loader.take();
}

}  // namespace millrace

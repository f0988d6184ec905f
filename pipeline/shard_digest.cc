#include "pipeline/shard_digest.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "formats/storage/local.h"
#include "formats/storage/retry.h"
#include "formats/storage/storage.h"

namespace millrace {
namespace {

constexpr size_t kEndBytes = 4096;
// A remote store answers many shards at once.
constexpr size_t kInFlight = 16;

std::string_view name_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string_view(path) : std::string_view(path).substr(slash + 1);
}

size_t num_groups(size_t num_shards) { return std::min(num_shards, ShardDigest::kMostGroups); }
size_t first_of_group(size_t group, size_t num_shards) { return group * num_shards / num_groups(num_shards); }

/// Opens one shard and reads its ends.
class EndsReader final : public OpenSink, public ReadSink, public std::enable_shared_from_this<EndsReader> {
 public:
  void start(Storage& storage, const std::string& path) {
    open_with_retries(storage, path, kDefaultMaxAttempts, shared_from_this());
  }

  void open_done(OpenResult result) noexcept override {
    if (!result.file) return finish(std::move(result.error.error));
    size_ = result.file->size();
    file_ = std::make_shared<WholeReader>(std::move(result.file));
    if (size_ == 0) return finish(std::nullopt);
    first_.resize(static_cast<size_t>(std::min<uint64_t>(size_, kEndBytes)));
    file_->read(0, first_, shared_from_this());
  }

  void read_done(ReadResult result) noexcept override {
    if (!result.ok) return finish(std::move(result.error.error));
    if (last_.empty() && size_ > first_.size()) {
      last_.resize(static_cast<size_t>(std::min<uint64_t>(size_ - first_.size(), kEndBytes)));
      file_->read(size_ - last_.size(), last_, shared_from_this());
      return;
    }
    finish(std::nullopt);
  }

  /// Sleeps until the ends are read.
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
    if (error_) throw ErrorException(*error_);
  }

  uint64_t size() const { return size_; }
  uint64_t content() const {
    const std::array<uint64_t, 2> ends = {XXH3_64bits(first_.data(), first_.size()),
                                          XXH3_64bits(last_.data(), last_.size())};
    return XXH3_64bits(ends.data(), sizeof ends);
  }

 private:
  void finish(std::optional<Error> error) {
    file_.reset();
    {
      const std::lock_guard lock(mutex_);
      error_ = std::move(error);
      done_ = true;
    }
    changed_.notify_all();
  }

  uint64_t size_ = 0;
  std::shared_ptr<WholeReader> file_;
  std::vector<std::byte> first_;
  std::vector<std::byte> last_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Error> error_;
  bool done_ = false;
};

void mix(uint64_t& digest, uint64_t value) {
  const std::array<uint64_t, 2> pair = {digest, value};
  digest = XXH3_64bits(pair.data(), sizeof pair);
}

ShardDigest read_digest(Storage& storage, const std::vector<std::string>& paths) {
  ShardDigest digest;
  digest.num_shards = static_cast<int64_t>(paths.size());
  std::deque<std::shared_ptr<EndsReader>> in_flight;
  size_t started = 0;
  for (size_t group = 0; group < num_groups(paths.size()); ++group) {
    uint64_t names = 0;
    uint64_t sizes = 0;
    uint64_t contents = 0;
    for (size_t i = first_of_group(group, paths.size()); i < first_of_group(group + 1, paths.size()); ++i) {
      while (started < paths.size() && in_flight.size() < kInFlight) {
        in_flight.push_back(std::make_shared<EndsReader>());
        in_flight.back()->start(storage, paths[started++]);
      }
      const std::shared_ptr<EndsReader> ends = std::move(in_flight.front());
      in_flight.pop_front();
      ends->wait();
      const std::string_view name = name_of(paths[i]);
      mix(names, XXH3_64bits(name.data(), name.size()));
      mix(sizes, ends->size());
      mix(contents, ends->content());
    }
    digest.names.push_back(names);
    digest.sizes.push_back(sizes);
    digest.contents.push_back(contents);
  }
  return digest;
}

}  // namespace

std::string ShardDigest::difference(const ShardDigest& saved, const std::vector<std::string>& paths) const {
  if (num_shards != saved.num_shards) {
    return fmt::format("there are {} shards, in the state there were {}", num_shards, saved.num_shards);
  }
  const auto unlike = [&](const std::vector<uint64_t>& here, const std::vector<uint64_t>& there,
                          std::string_view what) -> std::string {
    const auto group =
        static_cast<size_t>(std::mismatch(here.begin(), here.end(), there.begin(), there.end()).first - here.begin());
    if (group == here.size()) return "";
    const size_t first = first_of_group(group, paths.size());
    const size_t last = first_of_group(group + 1, paths.size()) - 1;
    if (first == last) return fmt::format("shard {} has {}", paths[first], what);
    return fmt::format("one of the shards from {} to {} has {}", paths[first], paths[last], what);
  };
  if (std::string text = unlike(names, saved.names, "another name or place in the list"); !text.empty()) return text;
  if (std::string text = unlike(sizes, saved.sizes, "another size"); !text.empty()) return text;
  return unlike(contents, saved.contents, "another content");
}

const ShardDigest& ShardDigestReader::digest() {
  const std::lock_guard lock(mutex_);
  if (!digest_) {
    InlineExecutor executor;
    LocalStorage local(executor);
    digest_ = read_digest(storage_ != nullptr ? *storage_ : local, paths_);
  }
  return *digest_;
}

}  // namespace millrace

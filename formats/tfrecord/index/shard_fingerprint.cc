#include "millrace/formats/tfrecord/index/shard_fingerprint.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "millrace/formats/storage/range_reader.h"
#include "millrace/formats/storage/storage.h"

namespace millrace {
namespace {

constexpr size_t kInFlight = 16;
// Of a store that answers many at a time, as its files advise: there the time goes into the way.
constexpr size_t kRemoteInFlight = 256;

/// Opens one shard and reads its ends.
class FingerprintReader final : public OpenSink,
                                public ReadSink,
                                public std::enable_shared_from_this<FingerprintReader> {
 public:
  explicit FingerprintReader(std::string path) : path_(std::move(path)) {}

  void start(Storage& storage) { open_with_retries(storage, path_, kDefaultMaxAttempts, shared_from_this()); }

  /// Sleeps until the ends are read. Once.
  [[nodiscard]] std::optional<Error> wait(const StorageWait& with) { return answer_.wait(with); }
  [[nodiscard]] bool is_remote() const { return is_remote_; }
  ShardFingerprint fingerprint() const {
    // Without the query of a URL, which may be another signature the next time.
    const bool is_http = path_.starts_with("http://") || path_.starts_with("https://");
    const std::string_view path = std::string_view(path_).substr(0, is_http ? path_.find('?') : path_.size());
    return {.name = std::string(path.substr(path.rfind('/') + 1)), .bytes = bytes_, .first = first_, .last = last_};
  }

 private:
  void open_done(OpenResult result) noexcept override {
    if (!result.file) return finish(std::move(result.error.error));
    try {
      read(std::move(result.file));
    } catch (...) {
      finish(current_exception_as_error());
    }
  }

  void read_done(ReadResult result) noexcept override {
    try {
      take(std::move(result));
    } catch (...) {
      finish(current_exception_as_error());
    }
  }

  void read(std::shared_ptr<File> opened) {
    bytes_ = opened->size();
    is_remote_ = opened->advice().in_flight > 1;
    end_.resize(static_cast<size_t>(std::min(bytes_, ShardFingerprint::kEndBytes)));
    first_ = last_ = XXH3_64bits(nullptr, 0);
    if (end_.empty()) return finish(std::nullopt);
    file_ = std::make_shared<RangeReader>(std::move(opened));
    read_end(0);
  }

  void take(ReadResult result) {
    if (!result.ok) return finish(std::move(result.error.error));
    if (result.bytes < end_.size()) {
      return finish(shrunken_file(path_, bytes_, offset_ + result.bytes));
    }
    const uint64_t hash = XXH3_64bits(end_.data(), end_.size());
    if (!has_first_) {
      has_first_ = true;
      first_ = hash;
      if (bytes_ > end_.size()) return read_end(bytes_ - end_.size());
    }
    last_ = hash;
    finish(std::nullopt);
  }

  void read_end(uint64_t offset) {
    offset_ = offset;
    file_->read(offset, end_, shared_from_this());
  }

  void finish(std::optional<Error> error) {
    file_.reset();
    answer_.set(std::move(error));
  }

  const std::string path_;
  uint64_t bytes_ = 0;
  uint64_t first_ = 0;
  uint64_t last_ = 0;
  bool has_first_ = false;
  bool is_remote_ = false;
  uint64_t offset_ = 0;  // of the read in flight
  std::shared_ptr<RangeReader> file_;
  std::vector<std::byte> end_;
  BlockingResult<std::optional<Error>> answer_;
};

}  // namespace

std::vector<ShardFingerprint> read_shard_fingerprints(Storage& storage, std::span<const std::string> paths,
                                                      const StorageWait& wait) {
  std::vector<ShardFingerprint> fingerprints;
  fingerprints.reserve(paths.size());
  std::deque<std::shared_ptr<FingerprintReader>> in_flight;
  size_t most = kInFlight;
  std::optional<Error> error;  // nothing more is asked for, but what was asked is waited for: the storage may go
  for (size_t started = 0; started < paths.size() || !in_flight.empty();) {
    for (; started < paths.size() && in_flight.size() < most && !error; ++started) {
      in_flight.push_back(std::make_shared<FingerprintReader>(paths[started]));
      in_flight.back()->start(storage);
    }
    if (in_flight.empty()) break;
    std::optional<Error> later = in_flight.front()->wait(wait);
    if (!error) error = std::move(later);
    fingerprints.push_back(in_flight.front()->fingerprint());
    if (in_flight.front()->is_remote()) most = kRemoteInFlight;
    in_flight.pop_front();
  }
  if (error) throw ErrorException(std::move(*error));
  return fingerprints;
}

ShardFingerprint read_shard_fingerprint(Storage& storage, const std::string& path) {
  return std::move(read_shard_fingerprints(storage, std::span(&path, 1)).front());
}

std::optional<std::string> difference(const ShardFingerprint& indexed, const ShardFingerprint& found) {
  std::vector<std::string> differences;
  if (indexed.name != found.name) {
    differences.push_back(fmt::format("it was made of '{}', the file is '{}'", indexed.name, found.name));
  }
  if (indexed.bytes != found.bytes) {
    differences.push_back(fmt::format("it was made of {} bytes, the file has {}", indexed.bytes, found.bytes));
  } else {
    if (indexed.first != found.first) differences.push_back("the first 4 KiB of the file are others");
    if (indexed.last != found.last) differences.push_back("the last 4 KiB of the file are others");
  }
  if (differences.empty()) return std::nullopt;
  return fmt::format("the index does not belong to this file: {}", fmt::join(differences, "; "));
}

}  // namespace millrace

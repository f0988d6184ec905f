#include "millrace/formats/tfrecord/index/index_loader.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/storage/closable_callback.h"
#include "millrace/formats/storage/range_reader.h"

namespace millrace {
namespace {

// Most indexes come with the first read. Memory for more is taken when these have shown that it is an index.
constexpr uint64_t kFirstBytes = 64 << 10;

}  // namespace

// What a read in flight may still touch when the loader is gone.
class IndexLoader::Read final : public OpenSink, public ReadSink, public std::enable_shared_from_this<Read> {
 public:
  Read(std::function<void()> wake, uint64_t most_bytes) : wake_(std::move(wake)), most_bytes_(most_bytes) {}

  void start(Storage& storage, const std::string& path) {
    open_with_retries(storage, path, kDefaultMaxAttempts, shared_from_this());
  }

  bool done() {
    const std::lock_guard lock(mutex_);
    waiting_ = !done_;
    return done_;
  }
  // Only when done.
  bool found() const { return found_; }
  const std::optional<Error>& error() const { return error_; }
  const std::string& bytes() const { return bytes_; }

  void close() {
    wake_.close();
    std::shared_ptr<RangeReader> file;
    {
      const std::lock_guard lock(mutex_);
      if (!done_) file = file_;
    }
    if (file) file->file().cancel();
  }

  void open_done(OpenResult result) noexcept override {
    try {
      take(std::move(result));
    } catch (...) {
      error_ = current_exception_as_error();
      finish();
    }
  }

  void read_done(ReadResult result) noexcept override {
    if (!result.ok) {
      error_ = std::move(result.error.error);
    } else if (read_ + result.bytes < bytes_.size()) {
      bytes_.resize(read_ + result.bytes);  // a file that was cut meanwhile is refused by its checksum
    } else if (bytes_.size() < size_) {
      return read_rest();
    }
    finish();
  }

 private:
  void take(OpenResult result) {
    if (!result.file) {
      if (!result.error.not_found) error_ = std::move(result.error.error);
      return finish();
    }
    found_ = true;
    size_ = result.file->size();
    if (size_ > ShardIndex::kMostBytes) {
      error_ = Error{.code = ErrorCode::kIndex, .message = fmt::format("{} bytes are too many for an index", size_)};
      return finish();
    }
    if (size_ > most_bytes_) {
      error_ = Error{.code = ErrorCode::kMemoryBudget,
                     .message = fmt::format("the index has {} bytes, the memory that is left for indexes {}, out of "
                                            "half of the memory budget",
                                            size_, most_bytes_)};
      return finish();
    }
    bytes_.resize(std::min(size_, kFirstBytes));
    if (size_ == 0) return finish();
    auto file = std::make_shared<RangeReader>(std::move(result.file), kDefaultMaxAttempts);
    {
      const std::lock_guard lock(mutex_);
      file_ = file;
    }
    file->read(0, std::as_writable_bytes(std::span(bytes_)), shared_from_this());
  }

  void read_rest() noexcept {
    try {
      ShardIndex::check_beginning(bytes_, size_);
      read_ = bytes_.size();
      bytes_.resize(size_);
    } catch (...) {
      error_ = current_exception_as_error();
      return finish();
    }
    file_->read(read_, std::as_writable_bytes(std::span(bytes_)).subspan(read_), shared_from_this());
  }

  void finish() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
      if (!std::exchange(waiting_, false)) return;
    }
    wake_.call();
  }

  ClosableCallback wake_;
  const uint64_t most_bytes_;
  std::mutex mutex_;
  bool done_ = false;
  bool waiting_ = false;  // somebody was told that it is not done
  // Written by the storage's answers, one after the other, before `done_`.
  bool found_ = false;
  std::optional<Error> error_;
  std::string bytes_;
  uint64_t size_ = 0;  // of the file
  size_t read_ = 0;    // by the reads before the last one
  std::shared_ptr<RangeReader> file_;
};

IndexLoader::IndexLoader(Storage& storage, const std::string& shard, std::function<void()> wake, uint64_t most_bytes)
    : path_(index_path(shard)) {
  if (!may_have_index(shard)) return;
  read_ = std::make_shared<Read>(std::move(wake), most_bytes);
  read_->start(storage, path_);
}

IndexLoader::~IndexLoader() {
  if (read_) read_->close();
}

bool IndexLoader::done() {
  if (!read_) return true;
  if (!read_->done()) return false;
  problem_ = read_->error();
  if (read_->found() && !problem_) {
    try {
      index_ = std::make_shared<const ShardIndex>(ShardIndex::parse(read_->bytes()));
    } catch (const ErrorException& exception) {
      problem_ = exception.error();
    }
  }
  if (problem_ && problem_->shard.empty()) problem_->shard = path_;
  // Whoever answered may still be about to wake.
  read_->close();
  read_ = nullptr;
  return true;
}

}  // namespace millrace

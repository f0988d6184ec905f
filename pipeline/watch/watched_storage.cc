#include "millrace/pipeline/watch/watched_storage.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "millrace/pipeline/run/stage_statistics.h"

namespace millrace {

/// The open files. Files outlive the storage when a read is in flight at its end, so they share this.
class WatchedStorage::List {
 public:
  void add(const Entry* entry) {
    const std::lock_guard lock(mutex_);
    entries_.insert(entry);
  }
  void remove(const Entry* entry) {
    const std::lock_guard lock(mutex_);
    entries_.erase(entry);
  }
  void count_answer() { answers_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t answers() const { return answers_.load(std::memory_order_relaxed); }
  std::vector<WatchedFileState> files() const;

 private:
  mutable std::mutex mutex_;  // once for each file, never for a read
  std::set<const Entry*> entries_;
  std::atomic<uint64_t> answers_{0};
};

/// A file that is open or being opened.
class WatchedStorage::Entry {
 public:
  using Doing = WatchedFileState::Doing;

  Entry(std::shared_ptr<List> list, std::string path) : list_(std::move(list)), path_(std::move(path)) {
    list_->add(this);
  }
  ~Entry() { list_->remove(this); }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

  const std::shared_ptr<List>& list() const { return list_; }
  const std::string& path() const { return path_; }

  void starts(Doing doing, uint64_t begin, uint64_t end) {
    begin_.store(begin, std::memory_order_relaxed);
    end_.store(end, std::memory_order_relaxed);
    since_ns_.store(now_ns(), std::memory_order_relaxed);
    doing_.store(doing, std::memory_order_relaxed);
  }
  void is_answered(size_t bytes) {
    begin_.fetch_add(bytes, std::memory_order_relaxed);
    doing_.store(Doing::kNothing, std::memory_order_relaxed);
    list_->count_answer();
  }
  WatchedFileState state(int64_t now) const {
    WatchedFileState state = {.path = path_,
                              .doing = doing_.load(std::memory_order_relaxed),
                              .begin = begin_.load(std::memory_order_relaxed),
                              .end = end_.load(std::memory_order_relaxed)};
    if (state.doing != Doing::kNothing) state.ns = now - since_ns_.load(std::memory_order_relaxed);
    return state;
  }

 private:
  const std::shared_ptr<List> list_;
  const std::string path_;
  std::atomic<Doing> doing_{Doing::kNothing};
  std::atomic<uint64_t> begin_{0};
  std::atomic<uint64_t> end_{0};
  std::atomic<int64_t> since_ns_{0};
};

std::vector<WatchedFileState> WatchedStorage::List::files() const {
  std::vector<WatchedFileState> files;
  const int64_t now = now_ns();
  {
    const std::lock_guard lock(mutex_);
    for (const Entry* entry : entries_) files.push_back(entry->state(now));
  }
  std::sort(files.begin(), files.end(), [](const WatchedFileState& a, const WatchedFileState& b) {
    return std::tie(b.ns, a.path) < std::tie(a.ns, b.path);
  });
  return files;
}

// At most one read is in flight on a handle, so the file itself is the sink of its reads.
class WatchedStorage::WatchedFile final : public File,
                                          public ReadSink,
                                          public std::enable_shared_from_this<WatchedFile> {
 public:
  WatchedFile(std::shared_ptr<List> list, std::string path, std::shared_ptr<File> wrapped)
      : entry_(std::move(list), std::move(path)), wrapped_(std::move(wrapped)) {}

  uint64_t size() const override { return wrapped_->size(); }
  std::string version() const override { return wrapped_->version(); }
  ReadAdvice advice() const override { return wrapped_->advice(); }
  void cancel() override { wrapped_->cancel(); }

  void read(uint64_t offset, std::span<std::byte> destination, std::shared_ptr<ReadSink> sink) override {
    sink_ = std::move(sink);
    entry_.starts(WatchedFileState::Doing::kReading, offset, offset + destination.size());
    try {
      wrapped_->read(offset, destination, shared_from_this());
    } catch (...) {
      entry_.is_answered(0);
      sink_ = nullptr;
      throw;
    }
  }
  void read_done(ReadResult result) noexcept override {
    entry_.is_answered(result.bytes);
    std::exchange(sink_, nullptr)->read_done(std::move(result));  // may read again
  }

 private:
  Entry entry_;
  const std::shared_ptr<File> wrapped_;
  std::shared_ptr<ReadSink> sink_;
};

class WatchedStorage::WatchedOpen final : public OpenSink {
 public:
  WatchedOpen(std::shared_ptr<List> list, std::shared_ptr<StorageLifetime> lifetime, std::string path,
              std::shared_ptr<OpenSink> sink)
      : entry_(std::in_place, std::move(list), std::move(path)),
        lifetime_(std::move(lifetime)),
        sink_(std::move(sink)) {
    entry_->starts(WatchedFileState::Doing::kOpening, 0, 0);
  }
  void open_done(OpenResult result) noexcept override {
    result = with_file(std::move(result), [this](std::shared_ptr<File> file) {
      return std::make_shared<WatchedFile>(entry_->list(), entry_->path(), std::move(file));
    });
    entry_->is_answered(0);
    entry_.reset();
    lifetime_->answer(*sink_, std::move(result));
  }

 private:
  std::optional<Entry> entry_;
  const std::shared_ptr<StorageLifetime> lifetime_;
  const std::shared_ptr<OpenSink> sink_;
};

WatchedStorage::WatchedStorage(std::shared_ptr<Storage> wrapped)
    : wrapped_(std::move(wrapped)), list_(std::make_shared<List>()) {}

WatchedStorage::~WatchedStorage() { lifetime_->end(); }

void WatchedStorage::open(const std::string& path, std::shared_ptr<OpenSink> sink) {
  wrapped_->open(path, std::make_shared<WatchedOpen>(list_, lifetime_, path, std::move(sink)));
}

uint64_t WatchedStorage::answers() const { return list_->answers(); }

std::vector<WatchedFileState> WatchedStorage::files() const { return list_->files(); }

}  // namespace millrace

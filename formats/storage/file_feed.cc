#include "millrace/formats/storage/file_feed.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace millrace {
namespace {

// Of a store that advises longer reads: whoever waits for the first record shall not wait for them.
constexpr size_t kFirstBytes = 1 << 20;

}  // namespace

// A handle of the file and the part that it reads. Its answers hold the feed, and nothing else does.
class FileFeed::Handle final : public OpenSink, public ReadSink, public std::enable_shared_from_this<Handle> {
 public:
  void open(std::shared_ptr<FileFeed> feed, Storage& storage, const std::string& path, int max_attempts) {
    ask(std::move(feed), [&] { open_with_retries(storage, path, max_attempts, shared_from_this()); });
  }
  void read(std::shared_ptr<FileFeed> feed) {
    const std::shared_ptr<Part> part = part_;  // by the end of the call there may be another one
    ask(std::move(feed), [&] {
      file_->read(part->offset, {part->chunk.buffer->data() + part->chunk.begin, part->asked()}, shared_from_this());
    });
    part->calling = false;
  }
  void open_done(OpenResult result) noexcept override {
    const std::shared_ptr<FileFeed> feed = std::move(feed_);
    feed->opened(*this, std::move(result));
  }
  void read_done(ReadResult result) noexcept override {
    const std::shared_ptr<FileFeed> feed = std::move(feed_);
    feed->read(*this, std::move(result));
  }

  std::shared_ptr<RangeReader> file_;  // null until it is open
  std::shared_ptr<Part> part_;         // null: it reads nothing
 private:
  // What throws has no answer that would let the feed go.
  template <typename Call>
  void ask(std::shared_ptr<FileFeed> feed, const Call& call) {
    feed_ = std::move(feed);
    try {
      call();
    } catch (...) {
      feed_ = nullptr;
      throw;
    }
  }

  std::shared_ptr<FileFeed> feed_;
};

FileFeed::FileFeed(BufferPool pool, FileFeedOptions options, std::function<void()> wake)
    : pool_(std::move(pool)),
      options_(options),
      wake_(std::move(wake)),
      most_parts_(options.read_ahead),
      chunk_bytes_(std::max<size_t>(options.chunk_bytes, 1)) {}

void FileFeed::open(Storage& storage, const std::string& path) {
  storage_ = &storage;
  path_ = path;
  handles_.push_back(std::make_shared<Handle>());
  num_busy_ = 1;
  handles_.front()->open(shared_from_this(), storage, path, options_.max_attempts);
}

void FileFeed::seek(uint64_t offset) {
  const std::lock_guard lock(mutex_);
  next_offset_ = offset;
}

void FileFeed::restart(uint64_t offset) {
  const std::lock_guard lock(mutex_);
  parts_.clear();
  falls_short_ = false;
  next_offset_ = offset;
}

void FileFeed::start_chunk(size_t max_bytes) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Part> part = chunk_part(max_bytes);
  started_ = free_handle();
  assign(started_, std::move(part));
}

void FileFeed::start_direct(std::span<std::byte> destination, const Buffer& buffer) {
  const std::lock_guard lock(mutex_);
  const auto begin = static_cast<size_t>(destination.data() - buffer->data());
  auto part = new_part();
  part->chunk = {buffer, begin, begin + destination.size()};
  part->direct = true;
  started_ = free_handle();
  assign(started_, std::move(part));
}

void FileFeed::run() { std::exchange(started_, nullptr)->read(shared_from_this()); }

FileFeed::Now FileFeed::look() {
  const std::lock_guard lock(mutex_);
  if (!parts_.empty() && parts_.front()->done) return Now::kBytes;
  waiting_ = num_busy_ > 0 && !error_;
  return waiting_ ? Now::kBusy : Now::kIdle;
}

bool FileFeed::is_idle() {
  const std::lock_guard lock(mutex_);
  return num_busy_ == 0 && parts_.empty();
}

bool FileFeed::reads_directly() {
  const std::lock_guard lock(mutex_);
  return !parts_.empty() && parts_.front()->direct;
}

std::optional<size_t> FileFeed::take_direct() {
  const std::lock_guard lock(mutex_);
  if (parts_.empty() || !parts_.front()->done || !parts_.front()->direct) return std::nullopt;
  const size_t bytes = parts_.front()->result.bytes;
  drop_first_part();
  settle();
  return bytes;
}

std::optional<FileFeed::Chunk> FileFeed::take_chunk() {
  const std::lock_guard lock(mutex_);
  if (parts_.empty() || !parts_.front()->done || parts_.front()->direct) return std::nullopt;
  Part& part = *parts_.front();
  Chunk chunk = std::move(part.chunk);
  chunk.end = chunk.begin + part.result.bytes;
  drop_first_part();
  settle();
  return chunk;
}

FileFeed::Got FileFeed::next_chunk(Chunk& chunk) {
  chunk = {};
  for (;;) {
    switch (look()) {
      case Now::kBusy: return Got::kPending;
      case Now::kBytes:
        if (std::optional<Chunk> next = take_chunk()) chunk = std::move(*next);
        read_ahead();
        return Got::kBytes;
      case Now::kIdle: break;
    }
    if (error()) return Got::kFailed;
    if (at_end()) return Got::kNothing;
    start_chunk(num_read() == 0 ? std::min(chunk_bytes(), kFirstBytes) : chunk_bytes());
    run();
    read_ahead();
  }
}

std::optional<Error> FileFeed::error() {
  const std::lock_guard lock(mutex_);
  return error_;
}

bool FileFeed::at_end() {
  const std::lock_guard lock(mutex_);
  return next_offset_ >= file_bytes_;
}

uint64_t FileFeed::next_offset() {
  const std::lock_guard lock(mutex_);
  return next_offset_;
}

uint64_t FileFeed::num_read() {
  const std::lock_guard lock(mutex_);
  return num_read_;
}

size_t FileFeed::chunk_bytes() {
  const std::lock_guard lock(mutex_);
  return chunk_bytes_;
}

bool FileFeed::is_slow() {
  const std::lock_guard lock(mutex_);
  return slow_;
}

void FileFeed::allow_read_ahead(bool allowed) {
  const std::lock_guard lock(mutex_);
  may_read_ahead_ = allowed;
}

void FileFeed::read_ahead() {
  Started started;
  {
    const std::lock_guard lock(mutex_);
    started = start_wanted();
  }
  run(started);
}

void FileFeed::close() {
  wake_.close();
  std::vector<std::shared_ptr<RangeReader>> reading;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    parts_.clear();
    for (const auto& handle : handles_) {
      if (handle->part_ != nullptr) reading.push_back(handle->file_);
    }
  }
  for (const auto& file : reading) file->file().cancel();
  const std::lock_guard opening(opening_mutex_);
  storage_ = nullptr;
}

void FileFeed::opened(Handle& handle, OpenResult result) noexcept {
  Started started;
  {
    const std::lock_guard lock(mutex_);
    --num_busy_;
    try {
      if (result.file == nullptr) {
        // Of one handle less there is no harm.
        if (first_file_ == nullptr) error_ = std::move(result.error.error);
        most_handles_ = std::max<size_t>(handles_.size() - 1, 1);
        std::erase_if(handles_, [&](const auto& other) { return other.get() == &handle; });
      } else if (first_file_ == nullptr) {
        file_bytes_ = result.file->size();
        take_advice(result.file->advice());
        handle.file_ = std::make_shared<RangeReader>(std::move(result.file), options_.max_attempts);
        first_file_ = handle.file_;
      } else {
        need_same(*result.file);
        handle.file_ = std::make_shared<RangeReader>(std::move(result.file), options_.max_attempts);
        started = start_wanted();
      }
    } catch (...) {
      error_ = current_exception_as_error();
    }
  }
  wake();
  run(started);
}

void FileFeed::read(Handle& handle, ReadResult result) noexcept {
  Started started;
  {
    const std::lock_guard lock(mutex_);
    --num_busy_;
    num_read_ += result.bytes;
    const std::shared_ptr<Part> part = std::exchange(handle.part_, nullptr);
    slow_ = !part->calling;
    try {
      part->result = std::move(result);
      part->done = true;
      if (std::ranges::find(parts_, part) != parts_.end()) {
        falls_short_ = falls_short_ || part->falls_short();
        settle();
      }
      started = start_wanted();
    } catch (...) {
      error_ = current_exception_as_error();
    }
  }
  wake();
  run(started);
}

// With as much memory, the largest reads that leave room for all that should be in flight and for one that is walked.
void FileFeed::take_advice(const ReadAdvice& advice) {
  if (advice.in_flight < 2) return;
  slow_ = true;
  const size_t most_bytes = std::max(options_.most_bytes, chunk_bytes_ * (options_.read_ahead + 1));
  auto in_flight = static_cast<size_t>(advice.in_flight);
  if (advice.in_all > 0) {
    const size_t of_each = (static_cast<size_t>(advice.in_all) + options_.num_files - 1) / options_.num_files;
    in_flight = std::clamp<size_t>(of_each, 1, in_flight);
  }
  chunk_bytes_ = std::max(std::min(advice.bytes, most_bytes / (in_flight + 1)), chunk_bytes_);
  most_parts_ = std::clamp<size_t>(most_bytes / chunk_bytes_ - 1, 1, in_flight + 1);
  most_handles_ = std::min(in_flight, most_parts_);
}

// All handles must read one content.
void FileFeed::need_same(const File& other) const {
  const std::string& version = first_file_->file().version();
  if (other.version() == version) return;
  throw ErrorException(
      {.code = ErrorCode::kIo,
       .message = fmt::format("it was changed while it was read: it was {}, and is {}", version, other.version()),
       .shard = path_});
}

// What has come to the front; what falls short is the end.
void FileFeed::settle() {
  if (parts_.empty() || !parts_.front()->done || !parts_.front()->falls_short()) return;
  Part& part = *parts_.front();
  parts_.resize(1);
  if (!error_) {
    error_ = part.result.ok ? shrunken_file("", file_bytes_, part.offset + part.result.bytes)
                            : std::move(part.result.error.error);
  }
  if (part.result.bytes == 0 && !part.direct) parts_.clear();
}

bool FileFeed::wants_chunk() const {
  // What is read directly is asked for when nothing else is there, and not ahead.
  const size_t ahead = parts_.size() - (!parts_.empty() && parts_.front()->direct ? 1 : 0);
  return may_read_ahead_ && slow_ && !closed_ && !error_ && !falls_short_ && next_offset_ < file_bytes_ &&
         ahead < most_parts_;
}

std::shared_ptr<FileFeed::Handle> FileFeed::free_handle() const {
  const auto is_free = [](const auto& handle) { return handle->file_ != nullptr && handle->part_ == nullptr; };
  const auto found = std::ranges::find_if(handles_, is_free);
  return found == handles_.end() ? nullptr : *found;
}

// Under the lock; what it gives is for `run`, without it.
FileFeed::Started FileFeed::start_wanted() {
  Started started;
  if (!wants_chunk()) return started;
  started.reads.reserve(handles_.size());
  while (wants_chunk()) {
    std::shared_ptr<Handle> handle = free_handle();
    if (handle == nullptr) break;
    assign(handle, chunk_part(chunk_bytes_));
    started.reads.push_back(std::move(handle));
  }
  const bool all_are_open = std::ranges::all_of(handles_, [](const auto& handle) { return handle->file_ != nullptr; });
  if (wants_chunk() && all_are_open && handles_.size() < most_handles_) {
    started.open = handles_.emplace_back(std::make_shared<Handle>());
    ++num_busy_;
  }
  return started;
}

void FileFeed::run(const Started& started) noexcept {
  for (const auto& handle : started.reads) handle->read(shared_from_this());
  if (started.open == nullptr) return;
  // Once it is closed the storage may be gone.
  const std::lock_guard opening(opening_mutex_);
  try {
    if (storage_ == nullptr) throw ErrorException(ErrorCode::kIo, "closed");
    started.open->open(shared_from_this(), *storage_, path_, options_.max_attempts);
  } catch (...) {
    opened(*started.open, {.error = {.error = current_exception_as_error()}});
  }
}

std::shared_ptr<FileFeed::Part> FileFeed::chunk_part(size_t max_bytes) {
  const auto size = static_cast<size_t>(std::min<uint64_t>(max_bytes, file_bytes_ - next_offset_));
  auto part = new_part();
  part->chunk = {pool_.allocate(kChunkHeadroom + size), kChunkHeadroom, kChunkHeadroom + size};
  return part;
}

std::shared_ptr<FileFeed::Part> FileFeed::new_part() {
  if (spare_ == nullptr) return std::make_shared<Part>();
  std::shared_ptr<Part> part = std::move(spare_);
  part->direct = part->done = false;
  part->result = {};
  part->calling = true;
  return part;
}

void FileFeed::drop_first_part() {
  std::shared_ptr<Part> part = std::move(parts_.front());
  parts_.pop_front();
  part->chunk = {};
  // The call that started it may not have returned.
  if (part.use_count() == 1) spare_ = std::move(part);
}

void FileFeed::assign(const std::shared_ptr<Handle>& handle, std::shared_ptr<Part> part) {
  part->offset = next_offset_;
  parts_.push_back(part);
  next_offset_ += part->asked();
  handle->part_ = std::move(part);
  ++num_busy_;
}

void FileFeed::wake() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (num_busy_ > 0 && (parts_.empty() || !parts_.front()->done) && !error_) return;
    if (!std::exchange(waiting_, false)) return;
  }
  wake_.call();
}

}  // namespace millrace

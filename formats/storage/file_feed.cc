#include "millrace/formats/storage/file_feed.h"

#include <algorithm>
#include <utility>

namespace millrace {

FileFeed::FileFeed(BufferPool pool, size_t chunk_bytes, size_t read_ahead, int max_attempts, std::function<void()> wake)
    : pool_(std::move(pool)),
      chunk_bytes_(std::max<size_t>(chunk_bytes, 1)),
      read_ahead_(read_ahead),
      max_attempts_(max_attempts),
      wake_(std::move(wake)) {}

void FileFeed::open(Storage& storage, const std::string& path) {
  busy_ = true;
  open_with_retries(storage, path, max_attempts_, shared_from_this());
}

void FileFeed::seek(uint64_t offset) {
  const std::lock_guard lock(mutex_);
  next_offset_ = offset;
}

void FileFeed::restart(uint64_t offset) {
  const std::lock_guard lock(mutex_);
  chunks_.clear();
  if (busy_) {
    restart_at_ = offset;
  } else {
    next_offset_ = offset;
  }
}

void FileFeed::start_chunk(size_t max_bytes) {
  const std::lock_guard lock(mutex_);
  prepare_chunk(max_bytes);
}

void FileFeed::start_direct(std::span<std::byte> destination, const Buffer& buffer) {
  const std::lock_guard lock(mutex_);
  direct_ = true;
  set_in_flight(buffer, static_cast<size_t>(destination.data() - buffer->data()), destination.size());
}

void FileFeed::run() {
  std::span<std::byte> destination;
  uint64_t offset = 0;
  {
    const std::lock_guard lock(mutex_);
    destination = {in_flight_.buffer->data() + in_flight_.begin, in_flight_.end - in_flight_.begin};
    offset = next_offset_;
    calling_ = true;
  }
  file_->read(offset, destination, shared_from_this());
  const std::lock_guard lock(mutex_);
  calling_ = false;
}

FileFeed::Now FileFeed::look() {
  const std::lock_guard lock(mutex_);
  if (direct_bytes_ || !chunks_.empty()) return Now::kBytes;
  waiting_ = busy_;
  return busy_ ? Now::kBusy : Now::kIdle;
}

bool FileFeed::is_idle() {
  const std::lock_guard lock(mutex_);
  return !busy_ && !direct_bytes_ && chunks_.empty();
}

bool FileFeed::reads_directly() {
  const std::lock_guard lock(mutex_);
  return direct_ || direct_bytes_;
}

std::optional<size_t> FileFeed::take_direct() {
  const std::lock_guard lock(mutex_);
  return std::exchange(direct_bytes_, std::nullopt);
}

std::optional<FileFeed::Chunk> FileFeed::take_chunk() {
  const std::lock_guard lock(mutex_);
  if (chunks_.empty()) return std::nullopt;
  Chunk chunk = std::move(chunks_.front());
  chunks_.pop_front();
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
    start_chunk(chunk_bytes_);
    run();
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

bool FileFeed::is_slow() {
  const std::lock_guard lock(mutex_);
  return slow_;
}

void FileFeed::allow_read_ahead(bool allowed) {
  const std::lock_guard lock(mutex_);
  may_read_ahead_ = allowed;
}

void FileFeed::read_ahead() {
  {
    const std::lock_guard lock(mutex_);
    if (!wants_chunk()) return;
    prepare_chunk(chunk_bytes_);
  }
  run();
}

void FileFeed::close() {
  wake_.close();
  bool reading;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    chunks_.clear();
    reading = busy_ && file_ != nullptr;
  }
  if (reading) file_->file().cancel();
}

void FileFeed::open_done(OpenResult result) noexcept {
  {
    const std::lock_guard lock(mutex_);
    try {
      if (result.file) {
        file_bytes_ = result.file->size();
        file_ = std::make_shared<RangeReader>(std::move(result.file), max_attempts_);
      } else {
        error_ = std::move(result.error.error);
      }
    } catch (...) {
      error_ = current_exception_as_error();
    }
    busy_ = false;
  }
  wake();
}

void FileFeed::read_done(ReadResult result) noexcept {
  bool again = false;
  {
    const std::lock_guard lock(mutex_);
    slow_ = !calling_;
    Chunk chunk = std::move(in_flight_);
    in_flight_ = {};
    busy_ = false;
    num_read_ += result.bytes;
    try {
      if (restart_at_) {
        next_offset_ = *std::exchange(restart_at_, std::nullopt);
      } else {
        take(result, std::move(chunk));
      }
      if (wants_chunk()) {
        prepare_chunk(chunk_bytes_);
        again = true;
      }
    } catch (...) {
      error_ = current_exception_as_error();
    }
  }
  wake();
  if (again) run();
}

void FileFeed::take(ReadResult& result, Chunk chunk) {
  const size_t asked = chunk.end - chunk.begin;
  next_offset_ += result.bytes;
  if (!result.ok) {
    error_ = std::move(result.error.error);
  } else if (result.bytes < asked) {
    error_ = shrunken_file("", file_bytes_, next_offset_);
  }
  if (std::exchange(direct_, false)) {
    direct_bytes_ = result.bytes;
  } else if (result.bytes > 0 && !closed_) {
    chunk.end = chunk.begin + result.bytes;
    chunks_.push_back(std::move(chunk));
  }
}

bool FileFeed::wants_chunk() const {
  return may_read_ahead_ && slow_ && !busy_ && !closed_ && !error_ && next_offset_ < file_bytes_ &&
         chunks_.size() < read_ahead_;
}

void FileFeed::prepare_chunk(size_t max_bytes) {
  const auto size = static_cast<size_t>(std::min<uint64_t>(max_bytes, file_bytes_ - next_offset_));
  set_in_flight(pool_.allocate(kChunkHeadroom + size), kChunkHeadroom, size);
}

void FileFeed::set_in_flight(Buffer buffer, size_t begin, size_t size) {
  in_flight_ = {std::move(buffer), begin, begin + size};
  busy_ = true;
}

void FileFeed::wake() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(waiting_, false)) return;
  }
  wake_.call();
}

}  // namespace millrace

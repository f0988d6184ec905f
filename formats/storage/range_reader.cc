#include "millrace/formats/storage/range_reader.h"

#include <new>
#include <utility>

#include <fmt/format.h>

namespace millrace {
namespace {

void add_attempts(StorageError& error, int num_attempts) noexcept {
  if (num_attempts <= 1) return;
  try {
    error.error.message += fmt::format(" (after {} attempts)", num_attempts);
  } catch (const std::bad_alloc&) {  // the error itself matters more
  }
}

class RetryingOpen final : public OpenSink, public std::enable_shared_from_this<RetryingOpen> {
 public:
  RetryingOpen(Storage& storage, std::string path, int max_attempts, std::shared_ptr<OpenSink> sink)
      : storage_(storage), path_(std::move(path)), max_attempts_(max_attempts), sink_(std::move(sink)) {}

  void start() {
    ++num_attempts_;
    storage_.open(path_, shared_from_this());
  }

  void open_done(OpenResult result) noexcept override {
    if (!result.file && result.error.retriable && num_attempts_ < max_attempts_) {
      try {
        return start();
      } catch (...) {
        result.error = {.error = current_exception_as_error()};
      }
    }
    if (!result.file) add_attempts(result.error, num_attempts_);
    std::exchange(sink_, nullptr)->open_done(std::move(result));
  }

 private:
  Storage& storage_;
  const std::string path_;
  const int max_attempts_;
  int num_attempts_ = 0;
  std::shared_ptr<OpenSink> sink_;
};

}  // namespace

Error shrunken_file(std::string path, uint64_t opened_bytes, uint64_t end) {
  return {.code = ErrorCode::kTruncated,
          .message = fmt::format("the file had {} bytes when it was opened and now ends after {}", opened_bytes, end),
          .shard = std::move(path)};
}

void open_with_retries(Storage& storage, const std::string& path, int max_attempts, std::shared_ptr<OpenSink> sink) {
  std::make_shared<RetryingOpen>(storage, path, max_attempts, std::move(sink))->start();
}

void RangeReader::read(uint64_t offset, std::span<std::byte> destination, std::shared_ptr<ReadSink> sink) {
  offset_ = offset;
  destination_ = destination;
  num_read_ = 0;
  num_attempts_ = 0;
  sink_ = std::move(sink);
  drive();
}

// A loop, not a recursion: a store that answers inside the call with one byte at a time must not grow the stack.
void RangeReader::drive() {
  for (;;) {
    call_.store(Call::kRunning, std::memory_order_relaxed);
    try {
      file_->read(offset_ + num_read_, destination_.subspan(num_read_), shared_from_this());
    } catch (...) {  // then nobody answers
      static_cast<void>(take({.ok = false, .error = {.error = current_exception_as_error()}}));
      return;
    }
    // Whoever comes second, the call's return or the answer, goes on.
    if (call_.exchange(Call::kReturned, std::memory_order_acq_rel) == Call::kRunning) return;
    if (take(std::move(answer_))) return;
  }
}

void RangeReader::read_done(ReadResult result) noexcept {
  answer_ = std::move(result);
  if (call_.exchange(Call::kAnswered, std::memory_order_acq_rel) == Call::kRunning) return;
  if (!take(std::move(answer_))) drive();
}

// True when the whole read is done and its sink was told; nothing of this object may be touched after that.
bool RangeReader::take(ReadResult result) {
  if (result.ok) {
    num_attempts_ = 0;
    num_read_ += result.bytes;
    if (result.bytes > 0 && num_read_ < destination_.size()) return false;
    result.bytes = num_read_;
  } else {
    if (++num_attempts_ < max_attempts_ && result.error.retriable) return false;
    add_attempts(result.error, num_attempts_);
    result.bytes = num_read_;
  }
  std::exchange(sink_, nullptr)->read_done(std::move(result));
  return true;
}

}  // namespace millrace

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "millrace/formats/storage/storage.h"

namespace millrace {

/// How often a retriable error is answered by asking again, without progress in between, before it is final.
/// Default: 5.
constexpr int kDefaultMaxAttempts = 5;

/// Opens `path`; retriable errors are retried up to `max_attempts` times in all. `storage` must outlive the answer.
void open_with_retries(Storage& storage, const std::string& path, int max_attempts, std::shared_ptr<OpenSink> sink);

/// The error for a file that ends at byte `end` and had `opened_bytes` when it was opened.
[[nodiscard]] Error shrunken_file(std::string path, uint64_t opened_bytes, uint64_t end);

/// Reads whole ranges of a file: goes on after short reads and retries retriable errors, so that its sink hears of
/// nothing but the full range, the end of the file, or a final error. The one place where reads are retried. One read
/// at a time; made with std::make_shared.
class RangeReader final : public ReadSink, public std::enable_shared_from_this<RangeReader> {
 public:
  explicit RangeReader(std::shared_ptr<File> file, int max_attempts = kDefaultMaxAttempts)
      : file_(std::move(file)), max_attempts_(max_attempts) {}

  /// Fewer bytes than asked for mean that the file ends there. The rules of File::read.
  void read(uint64_t offset, std::span<std::byte> destination, std::shared_ptr<ReadSink> sink);
  File& file() const { return *file_; }

  void read_done(ReadResult result) noexcept override;

 private:
  enum class Call { kRunning, kReturned, kAnswered };

  void drive();
  bool take(ReadResult result);

  const std::shared_ptr<File> file_;
  const int max_attempts_;
  // Of the read in flight. Its calls follow one another: `call_` hands them from thread to thread.
  uint64_t offset_ = 0;
  std::span<std::byte> destination_;
  size_t num_read_ = 0;
  int num_attempts_ = 0;
  std::shared_ptr<ReadSink> sink_;
  ReadResult answer_;
  std::atomic<Call> call_{Call::kReturned};
};

}  // namespace millrace

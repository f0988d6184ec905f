#include "formats/storage/blocking_file.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace millrace {
namespace {

/// The answer to one call, from whatever thread it comes.
template <typename Result>
class Answer {
 public:
  void set(Result result) {
    const std::lock_guard lock(mutex_);
    result_ = std::move(result);
    there_.notify_one();
  }
  Result wait() {
    std::unique_lock lock(mutex_);
    there_.wait(lock, [this] { return result_.has_value(); });
    return std::move(*result_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable there_;
  std::optional<Result> result_;
};

class OpenAnswer final : public OpenSink, public Answer<OpenResult> {
  void open_done(OpenResult result) noexcept override { set(std::move(result)); }
};

class ReadAnswer final : public ReadSink, public Answer<ReadResult> {
  void read_done(ReadResult result) noexcept override { set(std::move(result)); }
};

}  // namespace

BlockingFile::BlockingFile(Storage& storage, std::string path) : path_(std::move(path)) {
  const auto answer = std::make_shared<OpenAnswer>();
  open_with_retries(storage, path_, kDefaultMaxAttempts, answer);
  OpenResult result = answer->wait();
  if (!result.file) throw ErrorException(std::move(result.error.error));
  file_ = std::make_shared<WholeReader>(std::move(result.file));
}

void BlockingFile::read(uint64_t offset, std::span<std::byte> destination) {
  if (destination.empty()) return;
  const auto answer = std::make_shared<ReadAnswer>();
  file_->read(offset, destination, answer);
  ReadResult result = answer->wait();
  if (!result.ok) throw ErrorException(std::move(result.error.error));
  if (result.bytes < destination.size()) {
    throw ErrorException(Error{.code = ErrorCode::kTruncated,
                               .message = fmt::format("the file had {} bytes when it was opened and now ends after {}",
                                                      size(), offset + result.bytes),
                               .shard = path_});
  }
}

}  // namespace millrace

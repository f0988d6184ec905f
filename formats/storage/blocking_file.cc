#include "formats/storage/blocking_file.h"

#include <utility>

#include "formats/storage/answer.h"

namespace millrace {
namespace {

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
    throw ErrorException(shrunken_file(path_, size(), offset + result.bytes));
  }
}

}  // namespace millrace

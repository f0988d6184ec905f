#include "millrace/formats/storage/blocking_file.h"

#include <utility>

#include "millrace/formats/storage/blocking_result.h"

namespace millrace {
namespace {

class OpenAnswer final : public OpenSink, public BlockingResult<OpenResult> {
  void open_done(OpenResult result) noexcept override { set(std::move(result)); }
};

class ReadAnswer final : public ReadSink, public BlockingResult<ReadResult> {
  void read_done(ReadResult result) noexcept override { set(std::move(result)); }
};

OpenResult open(Storage& storage, const std::string& path) { return std::move(open_all(storage, {path}).front()); }

std::shared_ptr<File> opened(OpenResult result) {
  if (!result.file) throw ErrorException(std::move(result.error.error));
  return std::move(result.file);
}

}  // namespace

BlockingFile::BlockingFile(std::string path, std::shared_ptr<File> file)
    : path_(std::move(path)), file_(std::make_shared<RangeReader>(std::move(file))) {}

BlockingFile::BlockingFile(Storage& storage, const std::string& path)
    : BlockingFile(path, opened(open(storage, path))) {}

std::optional<BlockingFile> BlockingFile::find(Storage& storage, std::string path) {
  OpenResult result = open(storage, path);
  if (!result.file && result.error.not_found) return std::nullopt;
  return BlockingFile(std::move(path), opened(std::move(result)));
}

std::optional<BlockingFile> BlockingFile::find_if_allowed(Storage& storage, std::string path) {
  OpenResult result = open(storage, path);
  if (!result.file && (result.error.not_found || result.error.is_denied)) return std::nullopt;
  return BlockingFile(std::move(path), opened(std::move(result)));
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

std::vector<OpenResult> open_all(Storage& storage, const std::vector<std::string>& paths) {
  std::vector<std::shared_ptr<OpenAnswer>> answers;
  for (const std::string& path : paths) {
    answers.push_back(std::make_shared<OpenAnswer>());
    open_with_retries(storage, path, kDefaultMaxAttempts, answers.back());
  }
  std::vector<OpenResult> results;
  results.reserve(answers.size());
  for (const auto& answer : answers) results.push_back(answer->wait());
  return results;
}

}  // namespace millrace

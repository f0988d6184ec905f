#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "millrace/formats/storage/range_reader.h"
#include "millrace/formats/storage/storage.h"

namespace millrace {

/// A file of any storage for callers that may wait: programs and builders, never a stage of a running pipeline.
/// Retriable errors are retried (see range_reader.h). One thread at a time.
class BlockingFile {
 public:
  /// Throws the storage's error.
  BlockingFile(Storage& storage, const std::string& path);
  /// The same, and nothing when there is no such file.
  [[nodiscard]] static std::optional<BlockingFile> find(Storage& storage, std::string path);
  /// The same, and nothing also where nobody may say whether there is one.
  [[nodiscard]] static std::optional<BlockingFile> find_if_allowed(Storage& storage, std::string path);

  uint64_t size() const { return file_->file().size(); }
  /// Fills `destination` with the bytes from `offset` on. Throws the storage's error, and `truncated` when the file
  /// ends before.
  void read(uint64_t offset, std::span<std::byte> destination);
  const std::string& path() const { return path_; }

 private:
  BlockingFile(std::string path, std::shared_ptr<File> file);

  std::string path_;
  std::shared_ptr<RangeReader> file_;
};

/// Opens files at the same time, with the retries of a BlockingFile. Blocks.
[[nodiscard]] std::vector<OpenResult> open_all(Storage& storage, const std::vector<std::string>& paths);

}  // namespace millrace

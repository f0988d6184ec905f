#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "millrace/formats/storage/storage.h"
#include "millrace/pipeline/watch/storage_lifetime.h"

namespace millrace {

/// The versions of files (`File::version`) at their first open: what tells that a file was replaced meanwhile. Keeps
/// some 150 bytes a file. Any thread.
class FileVersions {
 public:
  /// The version that `path` was first opened with, where that was another one than `version`; else nothing.
  [[nodiscard]] std::optional<std::string> earlier(const std::string& path, const std::string& version);

 private:
  using Digest = std::pair<uint64_t, uint64_t>;  // of a path: 128 bits, so no two paths share one
  struct Hash {
    size_t operator()(const Digest& digest) const { return digest.first; }
  };
  std::mutex mutex_;
  std::unordered_map<Digest, std::string, Hash> versions_;
};

/// Another storage in which a file stays what it was when it was first opened: an open of another version is the error
/// `kIo`, which names both. So epochs of a pipeline never mix two data sets. Files and opens in flight may outlive it.
class VersionCheckedStorage final : public Storage {
 public:
  VersionCheckedStorage(std::shared_ptr<Storage> wrapped, std::shared_ptr<FileVersions> versions)
      : wrapped_(std::move(wrapped)), versions_(std::move(versions)) {}
  ~VersionCheckedStorage() override { lifetime_->end(); }
  void open(const std::string& path, std::shared_ptr<OpenSink> sink) override;
  [[nodiscard]] std::vector<std::string> glob(const std::string& pattern) override { return wrapped_->glob(pattern); }

 private:
  class CheckedOpen;
  const std::shared_ptr<Storage> wrapped_;
  const std::shared_ptr<FileVersions> versions_;
  const std::shared_ptr<StorageLifetime> lifetime_ = std::make_shared<StorageLifetime>();
};

}  // namespace millrace

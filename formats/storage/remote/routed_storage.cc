#include "millrace/formats/storage/remote/routed_storage.h"

#include <filesystem>
#include <map>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/formats/storage/blocking_file.h"
#include "millrace/formats/storage/whole_file.h"

namespace millrace {
namespace {

constexpr uint64_t kMostBytes = 1 << 30;

// What URLs of small files have led to, once in a process: a run goes on with what it began with, also where the store
// refuses it later.
class ReadOnce {
 public:
  std::optional<std::optional<std::string>> find(const std::string& url) {
    const std::lock_guard lock(mutex_);
    const auto found = texts_.find(url);
    if (found == texts_.end()) return std::nullopt;
    return found->second;
  }
  void keep(const std::string& url, const std::optional<std::string>& text) {
    constexpr size_t kMost = 64 << 20;
    const std::lock_guard lock(mutex_);
    const size_t bytes = text ? text->size() : 0;
    if (bytes_ + bytes > kMost) return;
    if (texts_.emplace(url, text).second) bytes_ += bytes;
  }
  void forget(const std::string& url) {
    const std::lock_guard lock(mutex_);
    const auto found = texts_.find(url);
    if (found == texts_.end()) return;
    bytes_ -= found->second ? found->second->size() : 0;
    texts_.erase(found);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::optional<std::string>> texts_;  // nothing: there is none
  size_t bytes_ = 0;
};

ReadOnce& read_once() {
  static ReadOnce known;
  return known;
}

// An object that is written: what this process has read of the one before holds no more.
class ForgottenOutput final : public OutputFile {
 public:
  explicit ForgottenOutput(std::unique_ptr<OutputFile> file) : OutputFile(file->path()), file_(std::move(file)) {}
  void write(std::string_view bytes) override { file_->write(bytes); }
  void commit() override {
    read_once().forget(path_);  // also where nobody knows whether it is there
    file_->commit();
    read_once().forget(path_);
  }

 private:
  const std::unique_ptr<OutputFile> file_;
};

std::string read_whole(BlockingFile& file, std::string_view what) {
  if (file.size() > kMostBytes) {
    throw ErrorException({.code = ErrorCode::kIo,
                          .message = fmt::format("cannot read the {}: it has more than {} bytes", what, kMostBytes),
                          .shard = file.path()});
  }
  std::string bytes(static_cast<size_t>(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(bytes)));
  read_once().keep(file.path(), bytes);
  return bytes;
}

}  // namespace

void RoutedStorage::open(const std::string& path, std::shared_ptr<OpenSink> sink) {
  if (RemoteStorage::opens(path)) {
    remote().open(path, std::move(sink));
  } else {
    local_.open(path, std::move(sink));
  }
}

std::vector<std::string> RoutedStorage::glob(const std::string& pattern, const GlobProgress& progress) {
  return RemoteStorage::opens(pattern) ? remote().glob(pattern, progress) : local_.glob(pattern);
}

RemoteStorage& RoutedStorage::remote() {
  const std::lock_guard lock(mutex_);
  if (remote_ == nullptr) remote_ = RemoteStorage::of_process();
  return *remote_;
}

std::vector<std::string> glob_anywhere(const std::string& pattern, const GlobProgress& progress) {
  return RemoteStorage::opens(pattern) ? RemoteStorage::glob_of_process(pattern, progress) : glob_local(pattern);
}

std::string path_in(std::string_view folder, std::string_view name) {
  if (folder.ends_with('/')) folder.remove_suffix(1);
  return fmt::format("{}/{}", folder, name);
}

bool exists_anywhere(const std::string& path) {
  if (!RemoteStorage::opens(path)) return std::filesystem::exists(path);
  return BlockingFile::find(*RemoteStorage::of_process(), path).has_value();
}

std::optional<uint64_t> known_size(const std::string& path) {
  if (RemoteStorage::opens(path)) return RemoteStorage::of_process()->listed_size(path);
  std::error_code unknown;
  const uintmax_t bytes = std::filesystem::file_size(path, unknown);
  return unknown ? std::nullopt : std::optional<uint64_t>(bytes);
}

std::string read_whole_anywhere(const std::string& path, std::string_view what) {
  if (!RemoteStorage::opens(path)) return read_whole_file(path, what);
  if (const auto known = read_once().find(path); known && *known) return **known;
  const std::shared_ptr<RemoteStorage> storage = RemoteStorage::of_process();
  BlockingFile file(*storage, path);
  return read_whole(file, what);
}

std::optional<std::string> find_whole_anywhere(const std::string& path, std::string_view what) {
  if (!RemoteStorage::opens(path)) {
    std::error_code code;
    if (!std::filesystem::exists(path, code) && !code) return std::nullopt;
    return read_whole_file(path, what);
  }
  if (auto known = read_once().find(path)) return *std::move(known);
  const std::shared_ptr<RemoteStorage> storage = RemoteStorage::of_process();
  std::optional<BlockingFile> file = BlockingFile::find(*storage, path);
  if (file) return read_whole(*file, what);
  read_once().keep(path, std::nullopt);
  return std::nullopt;
}

std::unique_ptr<OutputFile> open_output_anywhere(const std::string& path, OutputOptions options) {
  if (RemoteStorage::opens(path)) {
    return std::make_unique<ForgottenOutput>(RemoteStorage::of_process()->create(path, options));
  }
  if (options.if_absent) {
    throw ErrorException({.code = ErrorCode::kInvalidArgument,
                          .message = "if_absent is of objects in buckets, not of local files",
                          .shard = path});
  }
  return std::make_unique<AtomicFile>(path);
}

void write_anywhere(const std::string& path, std::string_view bytes) {
  const std::unique_ptr<OutputFile> file = open_output_anywhere(path);
  file->write(bytes);
  file->commit();
}

}  // namespace millrace

#include "millrace/formats/storage/remote/routed_storage.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/formats/storage/blocking_file.h"
#include "millrace/formats/storage/remote/disk_cache.h"
#include "millrace/formats/storage/remote/object_folder.h"
#include "millrace/formats/storage/remote/whole_object.h"
#include "millrace/formats/storage/whole_file.h"

namespace millrace {
namespace {

// An object that is written: what this process has read of the one before holds no more.
class ForgottenOutput final : public OutputFile {
 public:
  explicit ForgottenOutput(std::unique_ptr<OutputFile> file) : OutputFile(file->path()), file_(std::move(file)) {}
  void write(std::string_view bytes) override { file_->write(bytes); }
  [[nodiscard]] bool may_be_there() const override { return file_->may_be_there(); }
  void commit() override {
    forget_whole_objects(path_);  // also where nobody knows whether it is there
    file_->commit();
    forget_whole_objects(path_);
  }

 private:
  const std::unique_ptr<OutputFile> file_;
};

}  // namespace

void RoutedStorage::open(const std::string& path, std::shared_ptr<OpenSink> sink) {
  if (RemoteStorage::opens(path)) {
    if (cache_ == nullptr) return remote().open(path, std::move(sink));
    cache_->open_file(remote(), path, remote().identity(path), std::move(sink));
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
  return find_object(*RemoteStorage::of_process(), path).has_value();
}

std::vector<std::string> located(std::vector<std::string> paths) {
  return RemoteStorage::located_of_process(std::move(paths));
}

std::optional<uint64_t> known_size(const std::string& path) {
  if (RemoteStorage::opens(path)) return RemoteStorage::of_process()->listed_size(path);
  std::error_code unknown;
  const uintmax_t bytes = std::filesystem::file_size(path, unknown);
  return unknown ? std::nullopt : std::optional<uint64_t>(bytes);
}

std::string read_whole_anywhere(const std::string& path, std::string_view what) {
  if (!RemoteStorage::opens(path)) return read_whole_file(path, what);
  if (std::optional<std::string> bytes = find_whole_object(path, what)) return *std::move(bytes);
  // Says why it cannot.
  static_cast<void>(BlockingFile(*RemoteStorage::of_process(), path));
  throw ErrorException({.code = ErrorCode::kIo, .message = "it was not there a moment ago", .shard = path});
}

std::optional<std::string> find_whole_anywhere(const std::string& path, std::string_view what) {
  if (RemoteStorage::opens(path)) return find_whole_object(path, what);
  std::error_code code;
  if (!std::filesystem::exists(path, code) && !code) return std::nullopt;
  return read_whole_file(path, what);
}

std::unique_ptr<OutputFile> open_output_anywhere(const std::string& path, const OutputOptions& options) {
  if (RemoteStorage::opens(path)) {
    return std::make_unique<ForgottenOutput>(RemoteStorage::of_process()->create(path, options));
  }
  if (options.if_absent) {
    throw ErrorException({.code = ErrorCode::kInvalidArgument,
                          .message = "if_absent is of objects in buckets, not of local files",
                          .shard = path});
  }
  if (std::error_code unknown; std::filesystem::is_directory(path, unknown)) {  // which only `commit` would find
    throw ErrorException({.code = ErrorCode::kIo, .message = "cannot create the file: it is a folder", .shard = path});
  }
  return std::make_unique<AtomicFile>(path);
}

void write_anywhere(const std::string& path, std::string_view bytes) {
  const std::unique_ptr<OutputFile> file = open_output_anywhere(path);
  file->write(bytes);
  file->commit();
}

}  // namespace millrace

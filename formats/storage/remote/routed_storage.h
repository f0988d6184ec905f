#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/formats/storage/local.h"
#include "millrace/formats/storage/output_file.h"
#include "millrace/formats/storage/remote/output_options.h"
#include "millrace/formats/storage/remote/remote_storage.h"

namespace millrace {

class DiskCache;

/// Local files, and objects at URLs: each path goes to the storage that has it. Nothing of the network is started
/// before the first URL.
class RoutedStorage final : public Storage {
 public:
  /// `executor`: of LocalStorage; must outlive every read. `cache`: of what is read at URLs. Default: null, there is
  /// none
  explicit RoutedStorage(IoExecutor& executor, std::shared_ptr<DiskCache> cache = nullptr)
      : local_(executor), cache_(std::move(cache)) {}
  void open(const std::string& path, std::shared_ptr<OpenSink> sink) override;
  [[nodiscard]] std::vector<std::string> glob(const std::string& pattern) override { return glob(pattern, nullptr); }
  /// Tells how a listing of a store gets on.
  [[nodiscard]] std::vector<std::string> glob(const std::string& pattern, const GlobProgress& progress);

 private:
  RemoteStorage& remote();

  LocalStorage local_;
  const std::shared_ptr<DiskCache> cache_;
  std::mutex mutex_;
  std::shared_ptr<RemoteStorage> remote_;
};

/// As `Storage::glob` of a RoutedStorage; needs no executor.
[[nodiscard]] std::vector<std::string> glob_anywhere(const std::string& pattern,
                                                     const GlobProgress& progress = nullptr);

/// The path or URL of what is in a folder, which may end in a slash: a second one would be a part of an object's key.
[[nodiscard]] std::string path_in(std::string_view folder, std::string_view name);
/// Whether there is a file or object at a path or URL. Blocks. Throws `kIo` where a store does not say.
[[nodiscard]] bool exists_anywhere(const std::string& path);

/// Where the files at paths and URLs are: of a folder in a bucket that has a manifest the URLs of their objects, where
/// there are none of their names; else, and where there is no such file, as they stand. Of each folder one name is
/// asked for (`locate_in_folders`); where it is an object, opening it within a minute asks nothing, of 64 folders.
/// Blocks. Throws `kIo` where a store does not say.
[[nodiscard]] std::vector<std::string> located(std::vector<std::string> paths);

/// How many bytes a local file has, or an object that a listing of this process has named; nothing for others: nobody
/// is asked.
[[nodiscard]] std::optional<uint64_t> known_size(const std::string& path);

/// The bytes of a local file, as `read_whole_file`, or of an object at a URL, which is read once in a process as long
/// as all such have no more than 64 MiB: a run goes on with what it began with. Blocks. Throws `kIo`: it cannot be
/// read, or is longer than 1 GiB.
[[nodiscard]] std::string read_whole_anywhere(const std::string& path, std::string_view what = "file");
/// The same, and nothing where there is no such file or object.
[[nodiscard]] std::optional<std::string> find_whole_anywhere(const std::string& path, std::string_view what = "file");

/// Begins to write a local file (`AtomicFile`) or an object in a bucket (`ObjectUpload`): in both cases what is at the
/// path is there whole after `commit`, and not before. Throws `kIo` where the file cannot be made, and
/// `kInvalidArgument` for a URL of HTTP, one that names no object, and options that cannot be.
[[nodiscard]] std::unique_ptr<OutputFile> open_output_anywhere(const std::string& path,
                                                               const OutputOptions& options = {});
/// Writes a whole file or object at once. Blocks.
void write_anywhere(const std::string& path, std::string_view bytes);

}  // namespace millrace

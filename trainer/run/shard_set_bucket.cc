#include "millrace/trainer/run/shard_set_bucket.h"

#include <memory>
#include <optional>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/atomic_directory.h"
#include "millrace/formats/storage/remote/object_folder.h"
#include "millrace/formats/storage/remote/remote_storage.h"
#include "millrace/formats/storage/remote/routed_storage.h"

namespace millrace {
namespace {

[[noreturn]] void refuse(const std::string& url) {
  throw ErrorException(
      ErrorCode::kInvalidArgument,
      fmt::format("'{}' is in the way and not of an earlier set of shards: choose another folder", url));
}

// What is there besides the files that the new set replaces would be lost, or be read in the place of new ones.
std::string empty_or_earlier_set(const std::string& folder, const ShardSetOptions& options) {
  const std::shared_ptr<RemoteStorage> storage = RemoteStorage::of_process();
  // What wildcards match is of somebody else: ids and COMMIT are not.
  const std::vector<std::string> others = storage->plain_names_in(folder);
  if (!others.empty()) refuse(path_in(folder, others.front()));
  storage->forget(path_in(folder, FolderManifest::kObject));
  const FolderManifest earlier = find_manifest(*storage, folder).value_or(FolderManifest());
  bool has_shards = false;
  for (const FolderFile& file : earlier.files) {
    const size_t slash = file.name.rfind('/');
    const bool is_shard = is_shard_of(options, file.name.substr(slash + 1));  // npos + 1 is 0
    has_shards = has_shards || is_shard;
    if (!is_shard && slash != std::string::npos) refuse(path_in(folder, file.name));
  }
  if (!has_shards && !earlier.files.empty()) refuse(path_in(folder, earlier.files[0].name));
  return folder;
}

}  // namespace

ShardSetBucket::ShardSetBucket(const std::string& folder, const ShardSetOptions& options)
    : incomplete_(directory_.path()), upload_(empty_or_earlier_set(folder, options)) {
  for (const ShardSplit& split : options.splits) make_folder((incomplete_ / split.folder).string());
}

void ShardSetBucket::add(const std::string& name) {
  const std::string path = (incomplete_ / name).string();
  upload_.add(name, path, [path] {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  });
}

void ShardSetBucket::commit(const std::vector<ShardSetFile>& files,
                            const std::vector<std::unique_ptr<OutputFile>>& elsewhere) {
  for (const ShardSetFile& file : files) upload_.put(file.name, file.text);
  for (const auto& file : elsewhere) file->commit();
  upload_.commit();
}

}  // namespace millrace

#include "millrace/trainer/run/local_copy.h"

#include <map>
#include <memory>
#include <mutex>
#include <string_view>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/folder_download.h"
#include "millrace/formats/storage/remote/object_url.h"
#include "millrace/formats/storage/remote/remote_storage.h"
#include "millrace/formats/storage/shown_url.h"
#include "millrace/formats/storage/temporary_directory.h"

namespace millrace {
namespace {

class Copies {
 public:
  std::string of(const std::string& url) {
    const std::lock_guard lock(mutex_);
    const auto found = folders_.find(url);
    if (found != folders_.end()) return found->second->path();
    auto folder = std::make_unique<TemporaryDirectory>();
    download_folder(url, folder->path(), is_of_models);
    return (folders_[url] = std::move(folder))->path();
  }

 private:
  static bool is_of_models(const std::string& name) {
    const std::string all = '/' + name;
    for (const std::string_view other : {"/checkpoints/", "/tensorboard/", "/shards/", "/rows/"}) {
      if (all.find(other) != std::string::npos) return false;
    }
    return !all.ends_with("/log.jsonl");  // a checkpoint needs its skipped.jsonl
  }

  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<TemporaryDirectory>> folders_;
};

}  // namespace

std::string local_copy(const std::string& path) {
  if (!RemoteStorage::opens(path)) return path;
  if (!is_in_bucket(path)) {
    throw ErrorException({.code = ErrorCode::kInvalidArgument,
                          .message = "HTTP lists no folders: copy it, or take one of a bucket, s3:// or gs://",
                          .shard = shown_url(path)});
  }
  static Copies copies;
  return copies.of(path);
}

}  // namespace millrace

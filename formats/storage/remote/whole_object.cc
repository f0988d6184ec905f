#include "millrace/formats/storage/remote/whole_object.h"

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/blocking_file.h"
#include "millrace/formats/storage/remote/object_folder.h"
#include "millrace/formats/storage/remote/remote_storage.h"

namespace millrace {
namespace {

constexpr uint64_t kMostBytes = 1 << 30;

// What URLs have led to.
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
  void forget(const std::string& prefix) {
    const std::lock_guard lock(mutex_);
    for (auto at = texts_.lower_bound(prefix); at != texts_.end() && at->first.starts_with(prefix);) {
      bytes_ -= at->second ? at->second->size() : 0;
      at = texts_.erase(at);
    }
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

std::string read_whole(BlockingFile& file, std::string_view what) {
  if (file.size() > kMostBytes) {
    throw ErrorException({.code = ErrorCode::kIo,
                          .message = fmt::format("cannot read the {}: it has more than {} bytes", what, kMostBytes),
                          .shard = file.path()});
  }
  std::string bytes(static_cast<size_t>(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

}  // namespace

std::optional<std::string> find_whole_object(const std::string& url, std::string_view what) {
  if (auto known = read_once().find(url)) return *std::move(known);
  const std::shared_ptr<RemoteStorage> storage = RemoteStorage::of_process();
  std::optional<BlockingFile> file = find_object(*storage, url);
  std::optional<std::string> bytes;
  if (file) bytes = read_whole(*file, what);
  read_once().keep(url, bytes);
  return bytes;
}

void forget_whole_objects(const std::string& prefix) { read_once().forget(prefix); }

}  // namespace millrace

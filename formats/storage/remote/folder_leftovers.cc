#include "millrace/formats/storage/remote/folder_leftovers.h"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/blocking_file.h"
#include "millrace/formats/storage/remote/object_folder.h"
#include "millrace/formats/storage/remote/remote_storage.h"
#include "millrace/formats/storage/remote/routed_storage.h"

namespace millrace {
namespace {

// The folder whose writer has put an object there, without a slash at its end, and when; an empty one: none has.
struct Writer {
  std::string folder = {};
  std::chrono::system_clock::time_point at = {};
};

// Of ids in each other the outer one counts.
Writer writer_of(const std::string& url) {
  for (size_t slash = url.find('/', url.find("://") + 3); slash != std::string::npos;
       slash = url.find('/', slash + 1)) {
    const std::string_view rest = std::string_view(url).substr(slash + 1);
    if (const auto time = time_of_folder_id(rest.substr(0, rest.find('/')))) {
      return {.folder = url.substr(0, slash), .at = *time};
    }
  }
  return {};
}

// What the manifest of a folder names, and indexes of that; nothing: nobody can say.
std::optional<std::set<std::string>> objects_of(RemoteStorage& storage, const std::string& folder) {
  const std::string commit = path_in(folder, FolderManifest::kObject);
  storage.forget(commit);
  if (!BlockingFile::find(storage, commit)) return std::set<std::string>();
  std::optional<FolderManifest> manifest;
  try {
    manifest = find_manifest(storage, folder);
  } catch (const ErrorException& exception) {
    if (exception.error().code != ErrorCode::kParse) throw;
  }
  if (!manifest) return std::nullopt;
  std::set<std::string> urls;
  for (const FolderFile& file : manifest->files) {
    urls.insert(path_in(folder, file.object));
    urls.insert(path_in(folder, file.object) + ".index");
  }
  return urls;
}

}  // namespace

FolderLeftovers folder_leftovers(const std::string& prefix, std::chrono::seconds older_than) {
  const std::shared_ptr<RemoteStorage> storage = RemoteStorage::of_process();
  const auto now = std::chrono::system_clock::now();
  std::map<std::string, std::optional<std::set<std::string>>> known;  // of each folder
  FolderLeftovers leftovers;
  for (std::string& url : storage->list(prefix)) {
    const Writer writer = writer_of(url);
    if (writer.folder.empty() || now - writer.at < older_than) continue;
    const auto [found, is_new] = known.try_emplace(writer.folder);
    if (is_new) {
      found->second = objects_of(*storage, writer.folder);
      if (!found->second) leftovers.unreadable.push_back(path_in(writer.folder, FolderManifest::kObject));
    }
    if (found->second && !found->second->contains(url)) leftovers.objects.push_back(std::move(url));
  }
  return leftovers;
}

bool is_below_folder_id(const std::string& url) { return !writer_of(url).folder.empty(); }

}  // namespace millrace

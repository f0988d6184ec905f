#include "millrace/formats/storage/remote/folder_download.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/formats/storage/blocking_file.h"
#include "millrace/formats/storage/remote/object_folder.h"
#include "millrace/formats/storage/remote/object_url.h"
#include "millrace/formats/storage/remote/remote_storage.h"
#include "millrace/formats/storage/remote/routed_storage.h"
#include "millrace/formats/tfrecord/crc.h"

namespace millrace {
namespace {

constexpr size_t kPiece = 8 << 20;
constexpr size_t kMostAtATime = 4;

struct Copied {
  std::string url = {};
  std::string name = {};                 // below the folder
  std::optional<FolderFile> known = {};  // what it must be
};

void copy(RemoteStorage& storage, const Copied& what, const std::string& folder) {
  const std::filesystem::path path = std::filesystem::path(folder) / what.name;
  std::filesystem::create_directories(path.parent_path());
  BlockingFile object(storage, what.url);
  AtomicFile file(path.string());
  std::string piece;
  uint32_t crc = 0;
  for (uint64_t at = 0; at < object.size(); at += piece.size()) {
    piece.resize(std::min<uint64_t>(kPiece, object.size() - at));
    object.read(at, std::as_writable_bytes(std::span(piece)));
    crc = crc32c(piece, crc);
    file.write(piece);
  }
  if (what.known && (what.known->size != object.size() || what.known->crc != crc)) {
    throw ErrorException(
        {.code = ErrorCode::kIo,
         .message = fmt::format("it has {} bytes of CRC-32C {:08x}, and its folder's {} says {} of {:08x}",
                                object.size(), crc, FolderManifest::kObject, what.known->size, what.known->crc),
         .shard = what.url});
  }
  file.commit();
}

bool is_below_id(std::string_view name) {
  for (size_t slash = name.find('/'); slash != std::string_view::npos; slash = name.find('/')) {
    if (time_of_folder_id(name.substr(0, slash))) return true;
    name.remove_prefix(slash + 1);
  }
  return false;
}

// Of the folder at a URL that has no manifest; folders in it may.
std::vector<Copied> objects_below(RemoteStorage& storage, const std::string& url) {
  std::vector<std::string> names;
  std::map<std::string, FolderManifest> manifests;  // of `FOLDER/`
  const std::string end = fmt::format("/{}", FolderManifest::kObject);
  for (const std::string& object : storage.list(url + "/")) {
    const std::string name = object.substr(url.size() + 1);
    if (name.empty() || name.ends_with('/')) continue;  // stands for a folder
    if (is_below_id(name)) continue;                    // of a folder, if its manifest names it
    if (!is_name_below(name)) {
      throw ErrorException({.code = ErrorCode::kIo, .message = "no local file can have the name", .shard = object});
    }
    names.push_back(name);
    if (!name.ends_with(end)) continue;
    const std::string folder = name.substr(0, name.size() - end.size());
    if (auto manifest = find_manifest(storage, path_in(url, folder))) manifests[folder + '/'] = *std::move(manifest);
  }
  std::vector<Copied> all;
  for (const std::string& name : names) {
    const auto is_above = [&](const auto& entry) { return name.starts_with(entry.first); };
    if (std::ranges::none_of(manifests, is_above)) all.push_back({.url = path_in(url, name), .name = name});
  }
  for (const auto& [folder, manifest] : manifests) {
    for (const FolderFile& file : manifest.files) {
      all.push_back({.url = path_in(url, folder + file.object), .name = folder + file.name, .known = file});
    }
  }
  return all;
}

}  // namespace

std::vector<std::string> download_folder(const std::string& url, const std::string& folder,
                                         const std::function<bool(const std::string& name)>& wants) {
  const std::shared_ptr<RemoteStorage> storage = RemoteStorage::of_process();
  const std::string place = without_slash(url);
  std::vector<Copied> all;
  if (auto files = files_in_folders(*storage, place)) {
    for (const FoundFile& found : *files)
      all.push_back({.url = found.url, .name = found.file.name, .known = found.file});
  } else {
    all = objects_below(*storage, place);
  }
  if (wants) std::erase_if(all, [&](const Copied& one) { return !wants(one.name); });
  if (all.empty()) throw ErrorException({.code = ErrorCode::kIo, .message = "no file is in this folder", .shard = url});
  std::atomic<size_t> next = 0;
  std::atomic<bool> fails = false;
  const auto work = [&] {
    try {
      for (size_t i = next++; i < all.size() && !fails; i = next++) copy(*storage, all[i], folder);
    } catch (...) {
      fails = true;
      throw;
    }
  };
  std::vector<std::future<void>> threads;
  for (size_t i = 0; i < std::min(all.size(), kMostAtATime); ++i)
    threads.push_back(std::async(std::launch::async, work));
  for (std::future<void>& thread : threads) thread.wait();
  for (std::future<void>& thread : threads) thread.get();
  std::vector<std::string> names;
  names.reserve(all.size());
  for (Copied& one : all) names.push_back(std::move(one.name));
  return names;
}

}  // namespace millrace

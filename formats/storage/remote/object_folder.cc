#include "millrace/formats/storage/remote/object_folder.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/blocking_file.h"
#include "millrace/formats/storage/remote/key_pattern.h"
#include "millrace/formats/storage/remote/object_url.h"

namespace millrace {
namespace {

std::string path_of_manifest(const std::string& folder) {
  return fmt::format("{}/{}", folder, FolderManifest::kObject);
}

std::optional<FolderManifest> manifest_in(std::optional<BlockingFile> file) {
  if (!file || file->size() > FolderManifest::kMostBytes) return std::nullopt;
  std::string text(static_cast<size_t>(file->size()), '\0');
  file->read(0, std::as_writable_bytes(std::span(text)));
  try {
    return parse_folder_manifest(text);
  } catch (const ErrorException& exception) {
    Error error = exception.error();
    error.shard = file->path();
    throw ErrorException(std::move(error));
  }
}

// What is below a folder, and the folder's manifest.
struct Place {
  std::string folder;  // a URL, without a slash at its end
  std::string rest;
  FolderManifest manifest;
};

// The folder above what is at a URL, without a slash at its end; nothing is above a bucket.
std::string folder_of(const std::string& url) {
  const size_t scheme = url.find("://");
  const size_t slash = url.rfind('/');
  return scheme == std::string::npos || slash < scheme + 3 ? "" : url.substr(0, slash);
}

// Looks from the inner folder to the outer ones for one that has a manifest. `most`: bytes of the URL of the inner one.
std::optional<Place> nearest_folder(Storage& storage, const std::string& url, size_t most) {
  for (std::string folder = folder_of(url.substr(0, most)); !folder.empty(); folder = folder_of(folder)) {
    if (auto manifest = manifest_in(BlockingFile::find_if_allowed(storage, path_of_manifest(folder)))) {
      std::string rest = url.substr(folder.size() + 1);
      return Place{.folder = std::move(folder), .rest = std::move(rest), .manifest = *std::move(manifest)};
    }
  }
  return std::nullopt;
}

std::string url_of(const std::string& folder, const FolderFile& file) { return folder + '/' + file.object; }

// The URL of the object that is the file at `url`; nothing where the folder above it names no such file.
std::optional<std::string> url_in(const std::string& folder, const FolderManifest& manifest, const std::string& url) {
  const FolderFile* const file = manifest.find(std::string_view(url).substr(folder.size() + 1));
  return file == nullptr ? std::nullopt : std::optional(url_of(folder, *file));
}

// Each has its first 64 KiB with it.
constexpr size_t kMostOpen = 256;
constexpr size_t kMostKept = 64;

// Opens files, so many at the same time; is told in their order. Throws what a storage says but that one is not there,
// or that nobody may see it.
void open_each(Storage& storage, const std::vector<std::string>& paths,
               const std::function<void(const OpenResult&)>& told) {
  for (size_t begin = 0; begin < paths.size(); begin += kMostOpen) {
    const auto some = std::span(paths).subspan(begin, std::min(kMostOpen, paths.size() - begin));
    for (OpenResult& result : open_all(storage, {some.begin(), some.end()})) {
      if (!result.file && !result.error.not_found && !result.error.is_denied) {
        throw ErrorException(std::move(result.error.error));
      }
      told(result);
    }
  }
}

}  // namespace

std::optional<FolderManifest> find_manifest(Storage& storage, const std::string& folder) {
  return manifest_in(BlockingFile::find(storage, path_of_manifest(folder)));
}

std::optional<std::string> find_in_folders(Storage& storage, const std::string& url) {
  const std::optional<Place> place = nearest_folder(storage, url, url.size());
  return place ? url_in(place->folder, place->manifest, url) : std::nullopt;
}

std::optional<std::vector<FoundFile>> files_in_folders(Storage& storage, const std::string& folder) {
  const std::string prefix = folder + '/';
  const std::optional<Place> place = nearest_folder(storage, prefix, prefix.size());
  if (!place) return std::nullopt;
  std::vector<FoundFile> found;
  for (const FolderFile& file : place->manifest.files) {
    if (!file.name.starts_with(place->rest)) continue;
    found.push_back({.file = file, .url = url_of(place->folder, file)});
    found.back().file.name.erase(0, place->rest.size());
  }
  return found;
}

std::optional<BlockingFile> find_object(Storage& storage, const std::string& url) {
  std::optional<BlockingFile> file = BlockingFile::find(storage, url);
  if (file || !is_in_bucket(url)) return file;
  const std::optional<std::string> object = find_in_folders(storage, url);
  return object ? BlockingFile::find(storage, *object) : std::nullopt;
}

std::vector<std::shared_ptr<File>> locate_in_folders(Storage& storage, std::vector<std::string>& paths) {
  using Urls = std::vector<std::string*>;
  std::map<std::string, Urls> folders;
  for (std::string& path : paths) {
    if (is_in_bucket(path)) folders[folder_of(path)].push_back(&path);
  }
  // Folders whose manifests are looked for, by how deep they are: each one after all that are in it, and so once.
  std::map<int64_t, std::map<std::string, Urls>> sought;
  const auto seek = [&](const std::string& folder, const Urls& urls) {
    Urls& all = sought[std::ranges::count(folder, '/')][folder];
    all.insert(all.end(), urls.begin(), urls.end());
  };

  std::vector<std::string> firsts;
  firsts.reserve(folders.size());
  for (const auto& [folder, urls] : folders) firsts.push_back(*urls.front());
  std::vector<std::shared_ptr<File>> opened;
  auto of_first = folders.begin();
  open_each(storage, firsts, [&](const OpenResult& result) {
    const auto& [folder, urls] = *of_first++;
    if (result.file && opened.size() < kMostKept) opened.push_back(result.file);
    if (!result.file && result.error.not_found) seek(folder, urls);  // whoever opens what is denied is told
  });

  while (!sought.empty()) {
    const auto deepest = sought.extract(std::prev(sought.end()));
    std::vector<std::string> manifests;
    manifests.reserve(deepest.mapped().size());
    for (const auto& [folder, urls] : deepest.mapped()) manifests.push_back(path_of_manifest(folder));
    auto next = deepest.mapped().begin();
    open_each(storage, manifests, [&](const OpenResult& result) {
      const auto& [folder, urls] = *next++;
      const auto manifest =  // which is open: nobody is asked again
          result.file ? manifest_in(BlockingFile::find(storage, path_of_manifest(folder))) : std::nullopt;
      if (manifest) {
        for (std::string* const url : urls) *url = url_in(folder, *manifest, *url).value_or(*url);
      } else if (const std::string above = folder_of(folder); !above.empty()) {
        seek(above, urls);
      }
    });
  }
  return opened;
}

std::vector<std::string> glob_in_folders(Storage& storage, const std::string& pattern) {
  const std::optional<Place> place = nearest_folder(storage, pattern, pattern.find_first_of(KeyPattern::kSpecial));
  std::vector<std::string> urls;
  if (!place) return urls;
  const KeyPattern wanted(place->rest);
  std::string last_folder;
  for (const FolderFile& file : place->manifest.files) {
    if (wanted.matches(file.name)) {
      urls.push_back(url_of(place->folder, file));
    } else if (const std::string_view folder = wanted.matching_folder(file.name); !folder.empty()) {
      std::string url = fmt::format("{}/{}", place->folder, folder);
      if (urls.empty() || urls.back() != url) urls.push_back(std::move(url));
    }
  }
  return urls;
}

}  // namespace millrace

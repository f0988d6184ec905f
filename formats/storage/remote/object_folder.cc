#include "millrace/formats/storage/remote/object_folder.h"

#include <algorithm>
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

// Looks from the inner folder to the outer ones for one that has a manifest. `most`: bytes of the URL of the inner one.
std::optional<Place> nearest_folder(Storage& storage, const std::string& url, size_t most) {
  const size_t bucket = url.find("://");
  if (bucket == std::string::npos) return std::nullopt;
  const size_t first = url.find('/', bucket + 3);  // the slash after the bucket
  for (size_t end = url.rfind('/', most); first != std::string::npos && end != std::string::npos && end >= first;
       end = url.rfind('/', end - 1)) {
    std::string folder = url.substr(0, end);
    if (auto manifest = manifest_in(BlockingFile::find_if_allowed(storage, path_of_manifest(folder)))) {
      return Place{.folder = std::move(folder), .rest = url.substr(end + 1), .manifest = *std::move(manifest)};
    }
  }
  return std::nullopt;
}

std::string url_of(const Place& place, const FolderFile& file) { return place.folder + '/' + file.object; }

// The URL of the object that is the file at `url`; nothing where the place names no such file.
std::optional<std::string> url_in(const std::optional<Place>& place, const std::string& url) {
  if (!place || !url.starts_with(place->folder + '/')) return std::nullopt;
  const FolderFile* const file = place->manifest.find(std::string_view(url).substr(place->folder.size() + 1));
  return file == nullptr ? std::nullopt : std::optional(url_of(*place, *file));
}

}  // namespace

std::optional<FolderManifest> find_manifest(Storage& storage, const std::string& folder) {
  return manifest_in(BlockingFile::find(storage, path_of_manifest(folder)));
}

std::optional<std::string> find_in_folders(Storage& storage, const std::string& url) {
  return url_in(nearest_folder(storage, url, url.size() - 1), url);
}

std::optional<std::vector<FoundFile>> files_in_folders(Storage& storage, const std::string& folder) {
  const std::string prefix = folder + '/';
  const std::optional<Place> place = nearest_folder(storage, prefix, prefix.size());
  if (!place) return std::nullopt;
  std::vector<FoundFile> found;
  for (const FolderFile& file : place->manifest.files) {
    if (!file.name.starts_with(place->rest)) continue;
    found.push_back({.file = file, .url = url_of(*place, file)});
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
  std::map<std::string, std::vector<std::string*>> folders;
  for (std::string& path : paths) {
    if (is_in_bucket(path)) folders[path.substr(0, path.rfind('/'))].push_back(&path);
  }
  std::vector<std::string> firsts;
  for (const auto& [folder, urls] : folders) firsts.push_back(*urls.front());
  std::vector<std::shared_ptr<File>> opened;
  std::optional<Place> place;  // mostly that of the next folder, too
  std::vector<OpenResult> results = open_all(storage, firsts);
  auto first = results.begin();
  for (const auto& [folder, urls] : folders) {
    const OpenResult result = std::move(*first++);
    if (result.file) opened.push_back(result.file);
    if (result.file || result.error.is_denied) continue;  // whoever opens what is denied is told
    if (!result.error.not_found) throw ErrorException(result.error.error);
    if (!url_in(place, *urls.front())) place = nearest_folder(storage, *urls.front(), urls.front()->size() - 1);
    for (std::string* const url : urls) *url = url_in(place, *url).value_or(*url);
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
      urls.push_back(url_of(*place, file));
    } else if (const std::string_view folder = wanted.matching_folder(file.name); !folder.empty()) {
      std::string url = fmt::format("{}/{}", place->folder, folder);
      if (urls.empty() || urls.back() != url) urls.push_back(std::move(url));
    }
  }
  return urls;
}

}  // namespace millrace

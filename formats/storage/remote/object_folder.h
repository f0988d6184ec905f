#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/formats/storage/blocking_file.h"
#include "millrace/formats/storage/remote/folder_manifest.h"
#include "millrace/formats/storage/storage.h"

namespace millrace {

/// Folders of buckets whose files lie where their manifests say (`FolderManifest`). All of this blocks, and throws what
/// the storage does. Where a file is looked for, a manifest that nobody may see is none.

/// The manifest of the folder at a URL, `s3://BUCKET/KEY`; nothing where it has none.
[[nodiscard]] std::optional<FolderManifest> find_manifest(Storage& storage, const std::string& folder);

/// The URL of the object that is the file at `url`, of the nearest folder above it that has a manifest; nothing where
/// there is none, or it names no such file.
[[nodiscard]] std::optional<std::string> find_in_folders(Storage& storage, const std::string& url);

/// A file of a folder, its name below the folder that was asked for, and the URL of its object.
struct FoundFile {
  FolderFile file = {};
  std::string url = {};
};
/// The files below the folder at a URL, of its manifest or of the nearest folder above that has one; nothing where none
/// of them has. May be empty.
[[nodiscard]] std::optional<std::vector<FoundFile>> files_in_folders(Storage& storage, const std::string& folder);

/// Whether there are any.
[[nodiscard]] inline bool has_files(Storage& storage, const std::string& folder) {
  const auto files = files_in_folders(storage, folder);
  return files && !files->empty();
}

/// The object at a URL, or else of a bucket what `find_in_folders` says; nothing where there is neither.
[[nodiscard]] std::optional<BlockingFile> find_object(Storage& storage, const std::string& url);

/// Makes URLs in buckets those of the objects that are the files, by `find_in_folders`; other paths, and names of no
/// file, stay. One name of each folder is opened, 256 at the same time: where it is an object the others in the folder
/// are taken for such, too. Gives the first 64 that were: as long as somebody has them nobody is asked for them again.
std::vector<std::shared_ptr<File>> locate_in_folders(Storage& storage, std::vector<std::string>& paths);

/// The URLs of the objects that are the files which a pattern matches, as `glob_bucket` does, of the nearest folder
/// above its first wildcard that has a manifest; in the order of the files' names. Folders that it matches end in `/`.
[[nodiscard]] std::vector<std::string> glob_in_folders(Storage& storage, const std::string& pattern);

}  // namespace millrace

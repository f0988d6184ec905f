#pragma once

#include <functional>
#include <string>
#include <vector>

namespace millrace {

/// Copies what is in a folder of a bucket into a local one, which is made where it is not there: the files that its
/// manifest names, or that of a folder above it (`FolderManifest`), whose sizes and CRC-32C are compared, else all
/// objects below its URL, and of folders with manifests what these name. Four at a time. `wants`: which, by their
/// names; null: all. Gives the names of the files. Blocks. Throws `kIo` naming URL or file, also for a folder without
/// files.
std::vector<std::string> download_folder(const std::string& url, const std::string& folder,
                                         const std::function<bool(const std::string& name)>& wants = nullptr);

}  // namespace millrace

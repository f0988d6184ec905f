#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace millrace {

/// What writers of folders have left below a URL who were killed or could not remove it.
struct FolderLeftovers {
  /// URLs of objects below an id (`FolderManifest`) that the folder's manifest does not name, nor are indexes of such.
  std::vector<std::string> objects = {};
  /// URLs of objects that do not say what is whole beside them, as a COMMIT that is no manifest: nothing there is
  /// looked at.
  std::vector<std::string> unreadable = {};
};
/// Below `prefix`, `s3://BUCKET/KEY…`, of ids that were made `older_than` ago by the clock of their writer. Those of a
/// writer that is still at it look the same. Blocks. Throws `kIo`.
[[nodiscard]] FolderLeftovers folder_leftovers(const std::string& prefix, std::chrono::seconds older_than);

/// Whether an object lies below an id: whether it is left over its folder's manifest says.
[[nodiscard]] bool is_below_folder_id(const std::string& url);

}  // namespace millrace

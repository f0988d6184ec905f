#include "millrace/trainer/run/output_places.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <unistd.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/local.h"
#include "millrace/formats/storage/remote/object_url.h"
#include "millrace/formats/storage/remote/remote_storage.h"
#include "millrace/trainer/run/bucket_output.h"
#include "millrace/trainer/run/output_folder.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

// Tried: of root, of a file system that is read only and of one such as /proc rights alone do not say it. 0: it can.
int error_of_making_in(const fs::path& folder) {
  std::string name = (folder / ".millrace-XXXXXX").string();
  return ::mkdtemp(name.data()) == nullptr || ::rmdir(name.c_str()) != 0 ? errno : 0;
}

[[noreturn]] void fail(std::string_view what, const std::string& path, int error) {
  throw ErrorException({.code = ErrorCode::kIo,
                        .message = fmt::format("{}: {}", what, std::generic_category().message(error)),
                        .shard = path});
}

void check_folder(const std::string& path) {
  std::error_code ignored;  // what cannot be looked at is not there, and its parent takes no folder
  fs::path nearest = path;
  while (!nearest.empty() && !fs::exists(nearest, ignored)) nearest = nearest.parent_path();
  if (const int error = error_of_making_in(nearest); error != 0) fail("cannot make the folder", path, error);
}

// The run makes `out` first, and with it the folders that it lies in.
void check_file(const std::string& path, const std::string& out) {
  require_no_url(path);
  std::error_code ignored;
  int error = 0;
  if (!fs::exists(path, ignored)) {
    const fs::path parent = fs::path(path).parent_path();
    std::error_code unknown;
    if (!fs::exists(parent, unknown) && !unknown && lies_below(out, parent.string())) return;
    error = error_of_making_in(parent);
  } else if (fs::is_directory(path, ignored)) {
    error = EISDIR;
  } else if (::access(path.c_str(), W_OK) != 0) {
    error = errno;
  }
  if (error != 0) fail("cannot create the file", path, error);
}

}  // namespace

void check_output_places(const RunOptions& options) {
  if (RemoteStorage::opens(options.out)) {
    check_output_url(without_slash(options.out));
  } else if (!options.out.empty()) {
    check_folder(options.out);
  }
  if (!options.disk_cache.folder.empty()) {
    require_no_url(options.disk_cache.folder);
    check_folder(options.disk_cache.folder);
  }
  if (!options.trace.empty()) check_file(options.trace, options.out);
}

}  // namespace millrace

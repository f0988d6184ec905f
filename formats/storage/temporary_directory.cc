#include "millrace/formats/storage/temporary_directory.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "millrace/formats/error.h"

namespace millrace {

TemporaryDirectory::TemporaryDirectory() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (error) throw ErrorException(ErrorCode::kIo, "there is no folder for temporary files: " + error.message());
  path_ = (folder / "millrace-XXXXXX").string();
  if (::mkdtemp(path_.data()) != nullptr) return;
  error.assign(errno, std::generic_category());
  throw ErrorException({.code = ErrorCode::kIo, .message = error.message(), .shard = path_});
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace millrace

#include "millrace/formats/storage/file_stamp.h"

#include <chrono>

#include <sys/stat.h>

namespace millrace {

bool FileStamp::has_settled() const {
  const auto before = std::chrono::system_clock::now().time_since_epoch() - std::chrono::seconds(2);
  return std::chrono::nanoseconds(modified) < before;
}

std::optional<FileStamp> stamp_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return FileStamp{.device = status.st_dev,
                   .inode = status.st_ino,
                   .size = static_cast<uint64_t>(status.st_size),
                   .modified = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

}  // namespace millrace

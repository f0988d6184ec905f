#include "millrace/formats/storage/folder_lock.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "millrace/formats/error.h"

namespace millrace {

FolderLock::FolderLock(const std::string& folder) : folder_(folder) {
  descriptor_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ < 0) {
    throw ErrorException({.code = ErrorCode::kIo,
                          .message = fmt::format("cannot open the folder: {}", std::strerror(errno)),
                          .shard = folder});
  }
}

FolderLock::FolderLock(const std::string& folder, const std::string& doing) : FolderLock(folder) {
  if (!lock()) {
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("another process is {} '{}'", doing, folder));
  }
}

std::unique_ptr<FolderLock> FolderLock::try_lock(const std::string& folder) {
  std::unique_ptr<FolderLock> lock(new FolderLock(folder));
  return lock->lock() ? std::move(lock) : nullptr;
}

bool FolderLock::lock() { return ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK; }

void FolderLock::sync() {
  // Some file systems cannot sync a folder; then there is nothing to do.
  if (::fsync(descriptor_) == 0 || errno == EINVAL || errno == ENOTSUP) return;
  throw ErrorException({.code = ErrorCode::kIo,
                        .message = fmt::format("cannot bring the folder to the disk: {}", std::strerror(errno)),
                        .shard = folder_});
}

FolderLock::~FolderLock() { ::close(descriptor_); }

}  // namespace millrace

#include "millrace/formats/storage/folder_lock.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/descriptor_lock.h"

namespace millrace {

FolderLock::FolderLock(const std::string& folder) : folder_(folder) { open(); }

void FolderLock::open() {
  descriptor_ = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ < 0) {
    throw ErrorException({.code = ErrorCode::kIo,
                          .message = fmt::format("cannot open the folder: {}", std::strerror(errno)),
                          .shard = folder_});
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

bool FolderLock::lock() {
  constexpr int kMostTries = 100;
  for (int tries = 0; tries < kMostTries; ++tries) {
    const Locked locked = lock_alone(descriptor_);
    if (has_name(descriptor_, folder_)) return locked != Locked::kByAnother;
    ::close(std::exchange(descriptor_, -1));  // another folder has the name by now, or none
    open();
  }
  throw ErrorException(
      {.code = ErrorCode::kIo, .message = "the folder is replaced by another one again and again", .shard = folder_});
}

void FolderLock::sync() {
  if (!has_name(descriptor_, folder_)) {
    throw ErrorException({.code = ErrorCode::kIo,
                          .message = "the folder was removed, or replaced by another one, while it was written",
                          .shard = folder_});
  }
  // Some file systems cannot sync a folder; then there is nothing to do.
  if (::fsync(descriptor_) == 0 || errno == EINVAL || errno == ENOTSUP) return;
  throw ErrorException({.code = ErrorCode::kIo,
                        .message = fmt::format("cannot bring the folder to the disk: {}", std::strerror(errno)),
                        .shard = folder_});
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace millrace

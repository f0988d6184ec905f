#include "millrace/formats/storage/file_lock.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/descriptor_lock.h"

namespace millrace {

FileLock::FileLock(const std::string& path, int flags) {
  constexpr int kFlags = O_CLOEXEC | O_NONBLOCK;  // not for what a pipe in the place of the file brings
  descriptor_ = ::open(path.c_str(), flags | kFlags);
  // NFS gives a lock for one alone only to who may write; whoever may only read has to do with less.
  if (descriptor_ < 0 && flags == O_RDWR && (errno == EACCES || errno == EPERM || errno == EROFS)) {
    descriptor_ = ::open(path.c_str(), O_RDONLY | kFlags);
  }
  if (descriptor_ >= 0 || errno == ENOENT) return;
  throw ErrorException({.code = ErrorCode::kIo,
                        .message = fmt::format("cannot open the file: {}", std::strerror(errno)),
                        .shard = path});
}

std::unique_ptr<FileLock> FileLock::share(const std::string& path) {
  std::unique_ptr<FileLock> lock(new FileLock(path, O_RDONLY));
  if (lock->descriptor_ < 0) return nullptr;
  while (::flock(lock->descriptor_, LOCK_SH) != 0 && errno == EINTR) {
  }
  return has_name(lock->descriptor_, path) ? std::move(lock) : nullptr;
}

std::unique_ptr<FileLock> FileLock::try_alone(const std::string& path) {
  std::unique_ptr<FileLock> lock(new FileLock(path, O_RDWR));
  const bool taken = lock->descriptor_ >= 0 && lock_alone(lock->descriptor_) == Locked::kByAnother;
  return taken ? nullptr : std::move(lock);
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace millrace

#include "millrace/formats/storage/file_lock.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "millrace/formats/error.h"

namespace millrace {

FileLock::FileLock(const std::string& path) : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor_ >= 0 || errno == ENOENT) return;
  throw ErrorException({.code = ErrorCode::kIo,
                        .message = fmt::format("cannot open the file: {}", std::strerror(errno)),
                        .shard = path});
}

std::unique_ptr<FileLock> FileLock::share(const std::string& path) {
  std::unique_ptr<FileLock> lock(new FileLock(path));
  if (lock->descriptor_ < 0) return nullptr;
  while (::flock(lock->descriptor_, LOCK_SH) != 0 && errno == EINTR) {
  }
  struct stat locked {};
  struct stat named {};
  const bool is_there = ::fstat(lock->descriptor_, &locked) == 0 && ::stat(path.c_str(), &named) == 0 &&
                        locked.st_dev == named.st_dev && locked.st_ino == named.st_ino;
  return is_there ? std::move(lock) : nullptr;
}

std::unique_ptr<FileLock> FileLock::try_alone(const std::string& path) {
  std::unique_ptr<FileLock> lock(new FileLock(path));
  const bool taken =
      lock->descriptor_ >= 0 && ::flock(lock->descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  return taken ? nullptr : std::move(lock);
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace millrace

#include "millrace/formats/storage/descriptor_lock.h"

#include <cerrno>

#include <sys/file.h>
#include <sys/stat.h>

namespace millrace {

Locked lock_alone(int descriptor) {
  int result = 0;
  do {
    result = ::flock(descriptor, LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result == 0) return Locked::kYes;
  return errno == EWOULDBLOCK ? Locked::kByAnother : Locked::kUnknown;
}

bool has_name(int descriptor, const std::string& path) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(descriptor, &opened) == 0 && ::stat(path.c_str(), &named) == 0 && named.st_dev == opened.st_dev &&
         named.st_ino == opened.st_ino;
}

}  // namespace millrace

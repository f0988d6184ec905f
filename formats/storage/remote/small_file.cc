#include "millrace/formats/storage/remote/small_file.h"

#include <cerrno>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

[[noreturn]] void refuse(const std::string& path, std::string_view why) {
  throw ErrorException(ErrorCode::kIo, fmt::format("cannot read {}: {}", path, why));
}

class OpenFile {
 public:
  // Without waiting for whoever writes into a pipe.
  explicit OpenFile(const std::string& path) : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~OpenFile() {
    if (file_ >= 0) ::close(file_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int number() const { return file_; }

 private:
  int file_;
};

}  // namespace

std::optional<std::string> read_small_file(const std::string& path, size_t most_bytes) {
  const OpenFile file(path);
  if (file.number() < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    // As in the home of another user, which a container may name.
    struct stat unseen;
    const int error = errno;
    if (error == EACCES && ::stat(path.c_str(), &unseen) != 0) return std::nullopt;
    refuse(path, std::strerror(error));
  }
  struct stat status;
  if (::fstat(file.number(), &status) != 0) refuse(path, std::strerror(errno));
  if (S_ISDIR(status.st_mode)) refuse(path, std::strerror(EISDIR));
  if (!S_ISREG(status.st_mode)) refuse(path, "it is no regular file");
  std::string bytes(most_bytes + 1, '\0');
  size_t size = 0;
  while (size < bytes.size()) {
    const ssize_t got = ::read(file.number(), bytes.data() + size, bytes.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(path, std::strerror(errno));
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  if (size > most_bytes) refuse(path, fmt::format("it has more than {} bytes", most_bytes));
  bytes.resize(size);
  return bytes;
}

}  // namespace millrace

#include "millrace/formats/storage/local_output_file.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/local.h"

namespace millrace {

LocalOutputFile::LocalOutputFile(std::string path) : OutputFile(std::move(path)) { require_no_url(path_); }

void LocalOutputFile::fail(std::string_view what) {
  const int number = errno;
  discard();
  throw ErrorException(
      {.code = ErrorCode::kIo, .message = fmt::format("{}: {}", what, std::strerror(number)), .shard = path_});
}

void LocalOutputFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0) {
      if (errno == EINTR) continue;
      fail("cannot write");
    }
    bytes.remove_prefix(static_cast<size_t>(count));
  }
}

}  // namespace millrace

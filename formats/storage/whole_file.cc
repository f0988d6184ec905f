#include "millrace/formats/storage/whole_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/local.h"

namespace millrace {

std::string read_whole_file(const std::string& path, std::string_view what) {
  std::ifstream stream(path, std::ios::binary);
  std::error_code unknown;  // a pipe has no size
  const uintmax_t file_size = std::filesystem::file_size(path, unknown);
  std::string bytes(unknown ? 64 << 10 : static_cast<size_t>(file_size) + 1, '\0');
  size_t size = 0;
  while (stream.good()) {
    if (size == bytes.size()) bytes.resize(2 * size);
    stream.read(bytes.data() + size, static_cast<std::streamsize>(bytes.size() - size));
    size += static_cast<size_t>(stream.gcount());
  }
  if (!stream.is_open() || stream.bad()) {
    throw ErrorException(
        {.code = ErrorCode::kIo,
         .message = fmt::format("cannot read the {}: {}{}", what, std::strerror(errno), note_on_url(path)),
         .shard = path});
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace millrace

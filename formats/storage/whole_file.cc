#include "millrace/formats/storage/whole_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/local.h"

namespace millrace {
namespace {

// More than any text that is read as a whole; memory for a file without an end is not taken.
constexpr size_t kMostBytes = size_t{1} << 30;

[[noreturn]] void refuse(const std::string& path, std::string_view what, std::string_view why) {
  throw ErrorException(
      {.code = ErrorCode::kIo, .message = fmt::format("cannot read the {}: {}", what, why), .shard = path});
}

}  // namespace

std::string read_whole_file(const std::string& path, std::string_view what) {
  std::ifstream stream(path, std::ios::binary);
  std::error_code unknown;  // a pipe has no size
  const uintmax_t file_size = std::filesystem::file_size(path, unknown);
  const auto refuse_size = [&] { refuse(path, what, fmt::format("it has more than {} bytes", kMostBytes)); };
  if (!unknown && file_size > kMostBytes) refuse_size();
  std::string bytes(unknown ? 64 << 10 : static_cast<size_t>(file_size) + 1, '\0');
  size_t size = 0;
  while (stream.good()) {
    if (size > kMostBytes) refuse_size();
    if (size == bytes.size()) bytes.resize(std::min(2 * size, kMostBytes + 1));
    stream.read(bytes.data() + size, static_cast<std::streamsize>(bytes.size() - size));
    size += static_cast<size_t>(stream.gcount());
  }
  if (!stream.is_open() || stream.bad()) {
    refuse(path, what, fmt::format("{}{}", std::strerror(errno), note_on_url(path)));
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace millrace

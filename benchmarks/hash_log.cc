#include "benchmarks/hash_log.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

// `17 00f1…`: a number, a space, 16 hex digits.
bool parse_line(std::string_view line, int64_t& ordinal, uint64_t& hash) {
  const char* const end = line.data() + line.size();
  const auto number = std::from_chars(line.data(), end, ordinal);
  if (number.ec != std::errc() || end - number.ptr != 17 || *number.ptr != ' ') return false;
  const auto digits = std::from_chars(number.ptr + 1, end, hash, 16);
  return digits.ec == std::errc() && digits.ptr == end && ordinal >= 0;
}

}  // namespace

HashLog::HashLog(std::string path, bool resumed) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | (resumed ? 0 : O_TRUNC), 0666);
  if (descriptor_ < 0) fail("cannot open the file");
  struct stat status = {};
  if (::fstat(descriptor_, &status) != 0) fail("cannot read the file");
  std::string text(static_cast<size_t>(status.st_size), '\0');
  for (size_t done = 0; done < text.size();) {
    const ssize_t count = ::pread(descriptor_, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("cannot read the file");
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  const size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  if (whole < text.size() && ::ftruncate(descriptor_, static_cast<off_t>(whole)) != 0) fail("cannot cut the torn line");
  size_t line_number = 0;
  for (size_t begin = 0; begin < whole;) {
    const size_t end = text.find('\n', begin);
    int64_t ordinal = 0;
    uint64_t hash = 0;
    ++line_number;
    if (!parse_line(std::string_view(text).substr(begin, end - begin), ordinal, hash)) {
      throw ErrorException({.code = ErrorCode::kParse,
                            .message = fmt::format("line {} is no `ordinal hash`", line_number),
                            .shard = path_});
    }
    if (ordinal == static_cast<int64_t>(hashes_.size())) hashes_.push_back(hash);
    begin = end + 1;
  }
}

HashLog::~HashLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void HashLog::fail(const char* what) const {
  throw ErrorException(
      {.code = ErrorCode::kIo, .message = fmt::format("{}: {}", what, std::strerror(errno)), .shard = path_});
}

void HashLog::add(int64_t ordinal, uint64_t hash) {
  const std::string line = fmt::format("{} {:016x}\n", ordinal, hash);
  const ssize_t count = ::write(descriptor_, line.data(), line.size());
  if (count < 0) fail("cannot write the file");
  if (static_cast<size_t>(count) != line.size()) {
    errno = ENOSPC;
    fail("cannot write a whole line");
  }
}

std::optional<StreamHash> HashLog::stream_of(int64_t count) const {
  if (count > static_cast<int64_t>(hashes_.size())) return std::nullopt;
  StreamHash stream;
  for (int64_t i = 0; i < count; ++i) stream.add(hashes_[static_cast<size_t>(i)]);
  return stream;
}

}  // namespace millrace

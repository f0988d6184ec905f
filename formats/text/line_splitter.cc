#include "millrace/formats/text/line_splitter.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/text/byte_order_mark.h"

namespace millrace {
namespace {

constexpr std::ptrdiff_t kTogether = 4096;

// The first `c` in [begin, end), or `end`.
char* find(char* begin, char* end, char c) {
  if (begin == end) return end;
  auto* const found = static_cast<char*>(std::memchr(begin, c, static_cast<size_t>(end - begin)));
  return found == nullptr ? end : found;
}

}  // namespace

std::optional<Error> LineSplitter::cut(std::span<char> bytes, bool last, size_t max_records, FilePlace& place,
                                       CutRecords& out) {
  if (place.offset == 0) {
    const std::string_view text(bytes.data(), bytes.size());
    if (!last && has_part_of_mark(text)) return std::nullopt;
    if (std::string other = other_encoding(text); !other.empty()) return refuse_file(std::move(other));
  }
  char* line = bytes.data();
  char* const end = line + bytes.size();
  char* clean_to = line;  // no `\r` between `line` and here
  while (line != end && out.size() < max_records) {
    char* const line_end = find(line + num_searched_, end, '\n');
    num_searched_ = 0;
    const auto length = static_cast<uint64_t>(line_end - line);
    if (length > max_line_bytes_) {
      return Error{.code = ErrorCode::kRecordTooLarge,
                   .message = fmt::format("the line has more than {} bytes", max_line_bytes_)};
    }
    const bool unfinished = line_end == end;
    if (unfinished && !last) {
      num_searched_ = length;
      break;
    }
    char* text_end = line_end;
    if (clean_to < line_end) {
      // Short lines are looked at together.
      clean_to = find(clean_to, std::max(line_end, line + std::min(end - line, kTogether)), '\r');
      if (clean_to < line_end) text_end = std::remove(std::exchange(clean_to, line_end), line_end, '\r');
    }
    if (!unfinished || text_end != line) {
      out.payloads.emplace_back(line, static_cast<size_t>(text_end - line));
      out.offsets.push_back(place.offset);
      ++place.record;
    }
    const uint64_t used = length + (unfinished ? 0 : 1);
    place.offset += used;
    line += used;
  }
  return std::nullopt;
}

bool LineSplitter::pass(std::span<const char> bytes, bool last, FilePlace& place) {
  const auto end = std::find(bytes.begin(), bytes.end(), '\n');
  const bool found = end != bytes.end();
  place.offset += static_cast<uint64_t>(end - bytes.begin()) + (found ? 1 : 0);
  if (found || last) ++place.record;
  return found || last;
}

}  // namespace millrace

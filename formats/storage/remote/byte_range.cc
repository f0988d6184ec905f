#include "millrace/formats/storage/remote/byte_range.h"

#include <charconv>
#include <limits>

#include <fmt/format.h>

namespace millrace {

std::string range_field(const ByteRange& range) {
  return fmt::format("bytes={}-{}", range.offset, range.offset + range.size - 1);
}

std::optional<uint64_t> parse_count(std::string_view text) {
  uint64_t count = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (count > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return count;
}

std::optional<ContentRange> parse_content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  if (!text.starts_with(kUnit)) return std::nullopt;
  text.remove_prefix(kUnit.size());
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string_view size = text.substr(slash + 1);
  const std::string_view range = text.substr(0, slash);
  ContentRange content;
  if (size != "*") {
    content.object_size = parse_count(size);
    if (!content.object_size) return std::nullopt;
  }
  if (range == "*") return content;
  const size_t dash = range.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto first = parse_count(range.substr(0, dash));
  const auto last = parse_count(range.substr(dash + 1));
  if (!first || !last || *last < *first || (content.object_size && *last >= *content.object_size)) return std::nullopt;
  content.range = {.offset = *first, .size = *last - *first + 1};
  return content;
}

}  // namespace millrace

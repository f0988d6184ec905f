#include "millrace/formats/storage/remote/object_version.h"

#include <algorithm>

#include <fmt/format.h>

namespace millrace {

std::string ObjectVersion::to_string() const {
  std::string bytes = fmt::format("{} bytes", size);
  if (!generation.empty()) return fmt::format("generation {}, {}", generation, bytes);
  if (!tag.empty()) return fmt::format("etag {}, {}", tag, bytes);
  if (!last_modified.empty()) return fmt::format("of {}, {}", last_modified, bytes);
  return bytes;
}

bool ObjectVersion::may_be(const ObjectVersion& other) const {
  const auto differ = [](const std::string& a, const std::string& b) { return !a.empty() && !b.empty() && a != b; };
  if (size == other.size && !generation.empty() && !other.generation.empty()) return generation == other.generation;
  if (size != other.size || differ(tag, other.tag)) return false;
  return (!tag.empty() && tag == other.tag) || !differ(last_modified, other.last_modified);
}

bool tells_contents_apart(std::string_view version) {
  return version.starts_with("generation ") || version.starts_with("etag ");
}

std::string strong_tag(std::string_view field) {
  const bool is_plain = std::ranges::none_of(field, [](unsigned char c) { return c < ' ' || c == 0x7f; });
  if (field.starts_with("W/") || !is_plain) return {};
  if (field.size() >= 2 && field.front() == '"' && field.back() == '"') field = field.substr(1, field.size() - 2);
  return std::string(field);
}

ObjectVersion version_of(const HttpHead& head, uint64_t size) {
  ObjectVersion version{.size = size};
  if (const std::string* tag = head.headers.find("ETag")) version.tag = strong_tag(*tag);
  if (const std::string* number = head.headers.find("x-goog-generation")) version.generation = *number;
  if (const std::string* date = head.headers.find("Last-Modified")) version.last_modified = *date;
  return version;
}

void add_condition(HttpRequest& request, const ObjectVersion& pin) {
  if (!pin.tag.empty() && !pin.is_linked) {
    request.headers.add("If-Match", fmt::format("\"{}\"", pin.tag));
  } else if (!pin.last_modified.empty()) {
    request.headers.add("If-Unmodified-Since", pin.last_modified);
  }
}

}  // namespace millrace

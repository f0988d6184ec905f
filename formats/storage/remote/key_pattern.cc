#include "millrace/formats/storage/remote/key_pattern.h"

#include <algorithm>
#include <cstddef>

#include <fnmatch.h>

#include "millrace/formats/storage/remote/folder_manifest.h"

namespace millrace {
namespace {

std::vector<std::string> parts_of(std::string_view key) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= key.size();) {
    const size_t end = std::min(key.find('/', begin), key.size());
    parts.emplace_back(key.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

KeyPattern::KeyPattern(std::string_view pattern) : parts_(parts_of(pattern)) {}

std::string KeyPattern::escaped(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (std::string_view(kSpecial).find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

bool KeyPattern::matches_name(const std::string& part, const std::string& name) {
  if (!has_special(part)) return part == name;
  if (name == FolderManifest::kObject || name == FolderManifest::kLock || time_of_folder_id(name)) return false;
  if (name.find('\0') != std::string::npos) return false;
  return ::fnmatch(part.c_str(), name.c_str(), FNM_PERIOD) == 0;
}

bool KeyPattern::matches(const std::string& key) const {
  if (key.ends_with('/') || std::ranges::count(key, '/') != static_cast<std::ptrdiff_t>(parts_.size()) - 1)
    return false;
  return std::ranges::equal(parts_, parts_of(key), matches_name);
}

std::string_view KeyPattern::matching_folder(const std::string& key) const {
  size_t end = 0;
  for (size_t level = 0; level < parts_.size(); ++level) {
    end = key.find('/', end);
    if (end == std::string::npos) return {};
    ++end;
  }
  return matches(key.substr(0, end - 1)) ? std::string_view(key).substr(0, end) : std::string_view();
}

}  // namespace millrace

#include "millrace/formats/records/shards.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/formats/storage/local.h"
#include "millrace/formats/storage/remote/routed_storage.h"
#include "millrace/formats/storage/shown_url.h"

namespace millrace {
namespace {

[[noreturn]] void refuse(std::string message) { throw ErrorException(ErrorCode::kInvalidArgument, std::move(message)); }

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view without_slashes(std::string_view path) { return path.substr(0, path.find_last_not_of('/') + 1); }

// As Hadoop and Spark have it: `_SUCCESS`, `_temporary`, `.git`, but not the column of a partition `_day=1`.
bool is_hidden(std::string_view name) {
  return name.starts_with('.') || (name.starts_with('_') && name.find('=') == std::string_view::npos);
}

// Whether a folder that matches is no part of the data: it is not finished, or it is hidden, or in a hidden one that
// the pattern does not name itself.
bool is_passed_over(std::string_view folder, std::string_view pattern) {
  if (!written_name(folder).empty()) return true;
  while (true) {
    const std::string_view name = folder.substr(0, folder.find('/'));
    const bool is_last = name.size() == folder.size();
    if (is_hidden(name) && (is_last || !pattern.starts_with(name.front()))) return true;
    if (is_last) return false;
    folder.remove_prefix(name.size() + 1);
    pattern.remove_prefix(std::min(pattern.find('/'), pattern.size() - 1) + 1);
  }
}

// A pattern takes files alone; data in folders that it matches would be lost without a word.
void refuse_folders(std::string_view pattern, const std::vector<std::string>& folders) {
  constexpr size_t kMostShown = 3;
  const size_t shown = std::min(folders.size(), kMostShown);
  std::string names = fmt::format("'{}'", fmt::join(folders.begin(), folders.begin() + shown, "', '"));
  if (shown < folders.size()) names += fmt::format(" and {} more", folders.size() - shown);
  refuse(
      fmt::format("'{}' matches folders: {}. The files in them are '{}/*'; to leave them out, let the pattern match "
                  "files alone",
                  pattern, names, without_slashes(pattern)));
}

bool has_double_star(std::string_view pattern) {
  for (size_t i = 0; i + 1 < pattern.size(); ++i) {
    if (pattern[i] == '\\') {
      ++i;
    } else if (pattern[i] == '*' && pattern[i + 1] == '*') {
      return true;
    }
  }
  return false;
}

Shards from_matches(const std::string& pattern, std::vector<std::string> paths) {
  if (has_double_star(pattern) && (paths.size() != 1 || paths[0] != pattern)) {
    refuse(fmt::format("'{}': ** does not go through folders here; write one * for each level, as in 'data/*/*'",
                       shown_url(pattern)));
  }
  std::vector<std::string> folders;
  std::erase_if(paths, [&](const std::string& path) {
    if (!path.ends_with('/')) return false;
    const std::string_view folder = without_slashes(path);
    if (!is_passed_over(folder, without_slashes(pattern))) folders.emplace_back(folder);
    return true;
  });
  if (!folders.empty()) refuse_folders(pattern, folders);
  constexpr std::string_view kIndex = ".index";
  const bool wants_indexes = pattern.ends_with(kIndex);
  const size_t left_out = std::erase_if(paths, [&](const std::string& path) {
    return (!wants_indexes && path.ends_with(kIndex)) || !written_name(path).empty();
  });
  if (paths.empty() && left_out > 0) {
    refuse(
        fmt::format("no file matches '{}' but {} that are indexes of shards (NAME.index) or not finished "
                    "(NAME.tmp-PID-N)",
                    pattern, left_out));
  }
  if (paths.empty()) {
    const bool is_url = RemoteStorage::opens(pattern);
    refuse(fmt::format("no file matches '{}'{}", shown_url(pattern),
                       !is_url ? note_on_url(pattern)
                       : pattern.find('{') == std::string::npos
                           ? ""
                           : " ({00..12} is of http and https; where there are listings, * ? and [0-9] match)"));
  }
  return Shards::files(std::move(paths));
}

// A path or URL in each line.
Shards from_list(const std::string& list) {
  const std::string text = read_whole_anywhere(list, "list of shards");
  std::vector<std::string> paths;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty() && !line.starts_with('#')) paths.push_back(std::move(line));
    begin = end + 1;
  }
  if (paths.empty()) refuse(fmt::format("the list '{}' names no file", list));
  return Shards::files(located(std::move(paths)));
}

// One part of a name pattern: text to match, then (but for the last) a field after it.
enum class Field { kEnd, kAnything, kIndex, kCount };
struct Part {
  std::string text;
  Field field;
};

std::vector<Part> split(std::string_view pattern) {
  std::vector<Part> parts;
  std::string text;
  int num_counts = 0;
  while (!pattern.empty()) {
    Field field = Field::kEnd;
    size_t size = 1;
    if (pattern.starts_with("{count}")) {
      field = Field::kCount;
      size = 7;
      ++num_counts;
    } else if (pattern.starts_with("{index}")) {
      field = Field::kIndex;
      size = 7;
    } else if (pattern.front() == '*') {
      field = Field::kAnything;
    } else if (pattern.front() == '{') {
      refuse(fmt::format("'{}' in a pattern of shard names: only {{count}}, {{index}} and * mean something", pattern));
    }
    if (field == Field::kEnd) {
      text += pattern.front();
    } else {
      parts.push_back({std::exchange(text, {}), field});
    }
    pattern.remove_prefix(size);
  }
  parts.push_back({text, Field::kEnd});
  if (num_counts != 1) {
    refuse(fmt::format("a pattern of shard names needs {{count}} once, found it {} times", num_counts));
  }
  return parts;
}

// Matches `name` from `part` on; the first match that is found counts, fields take as much as they can.
bool match(std::string_view name, const std::vector<Part>& parts, size_t part, std::string_view& count) {
  const Part& now = parts[part];
  if (!name.starts_with(now.text)) return false;
  name.remove_prefix(now.text.size());
  if (now.field == Field::kEnd) return name.empty();
  const bool digits = now.field != Field::kAnything;
  size_t longest = 0;
  while (longest < name.size() && (!digits || is_digit(name[longest]))) ++longest;
  for (size_t size = longest + 1; size-- > (digits ? 1U : 0U);) {
    // A number is never cut: what follows it is no digit.
    if (digits && size < longest) return false;
    std::string_view later;
    if (!match(name.substr(size), parts, part + 1, later)) continue;
    count = now.field == Field::kCount ? name.substr(0, size) : later;
    return true;
  }
  return false;
}

}  // namespace

Shards Shards::glob(const std::string& pattern, const GlobProgress& progress) {
  std::error_code unknown;
  if (pattern.starts_with('@') && !std::filesystem::exists(pattern, unknown)) return from_list(pattern.substr(1));
  if (std::filesystem::is_directory(pattern, unknown)) {
    refuse(fmt::format("'{}' is a folder; for the files in it give '{}/*'", pattern, without_slashes(pattern)));
  }
  return from_matches(pattern, glob_anywhere(pattern, progress));
}

Shards Shards::glob(Storage& storage, const std::string& pattern) {
  return from_matches(pattern, storage.glob(pattern));
}

Shards Shards::globs(const std::vector<std::string>& patterns) {
  std::vector<std::string> paths;
  std::set<std::string> seen;
  for (const std::string& pattern : patterns) {
    const Shards matches = glob(pattern);
    for (const Shard& shard : matches.list()) {
      if (seen.insert(shard.path).second) paths.push_back(shard.path);
    }
  }
  if (paths.empty()) refuse("a list of patterns of shards is empty");
  return files(std::move(paths));
}

Shards Shards::files(std::vector<std::string> paths) {
  if (paths.empty()) refuse("a list of shards is empty");
  std::vector<Shard> shards;
  shards.reserve(paths.size());
  for (std::string& path : paths) {
    if (path.empty()) refuse(fmt::format("the path of shard {} is empty", shards.size()));
    shards.push_back({.path = std::move(path)});
  }
  return Shards(std::move(shards));
}

Shards Shards::counts_from(std::string_view name_pattern) const {
  const std::vector<Part> parts = split(name_pattern);
  std::vector<uint64_t> counts;
  for (const Shard& shard : shards_) {
    const std::string_view name = std::string_view(shard.path).substr(shard.path.rfind('/') + 1);
    std::string_view count;
    uint64_t number = 0;
    if (!match(name, parts, 0, count)) {
      refuse(fmt::format("the name of shard '{}' does not match '{}'", shard.path, name_pattern));
    }
    const auto parsed = std::from_chars(count.data(), count.data() + count.size(), number);
    counts.push_back(parsed.ec == std::errc() ? number : std::numeric_limits<uint64_t>::max());
  }
  return with_counts(counts);
}

Shards Shards::with_counts(const std::vector<uint64_t>& counts) const {
  if (counts.size() != shards_.size()) {
    refuse(fmt::format("{} numbers of records for {} shards", counts.size(), shards_.size()));
  }
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();  // what a cardinality can be
  uint64_t sum = 0;
  std::vector<Shard> shards = shards_;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > kMost - sum) {
      refuse(fmt::format("shard '{}' brings the number of records above {}", shards[i].path, kMost));
    }
    sum += counts[i];
    shards[i].num_records = counts[i];
  }
  return Shards(std::move(shards));
}

std::optional<uint64_t> Shards::num_records() const {
  uint64_t sum = 0;
  for (const Shard& shard : shards_) {
    if (!shard.num_records) return std::nullopt;
    sum += *shard.num_records;
  }
  return sum;
}

}  // namespace millrace

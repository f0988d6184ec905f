#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace millrace {

/// What keys of objects are matched with, by the rules of local files (`glob_local`): `*`, `?` and `[a-z]` do not match
/// a `/`, nor a `.` at the beginning of a name, `\` takes the meaning of the next character. No wildcard matches what
/// belongs to folders that are exchanged as a whole: COMMIT, LOCK and ids (`FolderManifest`).
class KeyPattern {
 public:
  static constexpr const char* kSpecial = "*?[\\";

  explicit KeyPattern(std::string_view pattern);

  /// A text that stands for itself in a pattern.
  [[nodiscard]] static std::string escaped(std::string_view text);
  /// Whether a name between slashes matches a part of the pattern.
  [[nodiscard]] static bool matches_name(const std::string& part, const std::string& name);
  [[nodiscard]] static bool has_special(std::string_view part) { return part.find_first_of(kSpecial) < part.size(); }

  [[nodiscard]] bool matches(const std::string& key) const;
  /// Of a key that lies deeper than what the pattern matches: the folder that it matches, with the slash at its end;
  /// empty: none.
  [[nodiscard]] std::string_view matching_folder(const std::string& key) const;
  /// What is between its slashes.
  [[nodiscard]] const std::vector<std::string>& parts() const { return parts_; }

 private:
  std::vector<std::string> parts_;
};

}  // namespace millrace

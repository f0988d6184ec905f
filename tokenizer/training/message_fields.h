#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace millrace {

/// What UnigramTrainer and its program (learn_unigram.cc) send each other are fields, each of which ends with a NUL
/// that no field contains.
inline void append_field(std::string& message, std::string_view field) {
  message.append(field);
  message.push_back('\0');
}

/// Takes the next field away; none where its end is missing.
inline std::optional<std::string_view> take_field(std::string_view& message) {
  const size_t end = message.find('\0');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view field = message.substr(0, end);
  message.remove_prefix(end + 1);
  return field;
}

}  // namespace millrace

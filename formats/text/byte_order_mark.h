#pragma once

#include <string>
#include <string_view>

namespace millrace {

/// The mark of byte order, U+FEFF, as it stands at the beginning of a text in UTF-8.
inline constexpr std::string_view kUtf8Mark = "\xef\xbb\xbf";

/// Whether a text is too short to say which mark it begins with, and more of it is to come.
[[nodiscard]] bool has_part_of_mark(std::string_view text);

/// What is wrong with a text that begins with the mark of UTF-16 or UTF-32, and what to do about it; empty for any
/// other text. `the text is UTF-16LE by its first bytes (ff fe), and UTF-8 is read here: …`
[[nodiscard]] std::string other_encoding(std::string_view text);

}  // namespace millrace

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace millrace {

/// Bytes of the longest prefix that is valid UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above
/// U+10FFFF): `text.size()` when all of it is, else the offset of the first character that is not.
size_t valid_utf8_prefix(std::string_view text);

inline bool is_valid_utf8(std::string_view text) { return valid_utf8_prefix(text) == text.size(); }

/// A text that may be any bytes, such as the name of a file, as one line that a terminal takes: control characters and
/// what is no UTF-8 as `\n`, `\t`, `\r` or `\x1b`.
[[nodiscard]] std::string printable(std::string_view text);

/// What a message shows of a name from a file, which may be of any length: its first `most` characters, and `...` where
/// there are more.
[[nodiscard]] std::string excerpt(std::string_view text, size_t most = 60);

}  // namespace millrace

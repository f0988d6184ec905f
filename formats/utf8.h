#pragma once

#include <cstddef>
#include <string_view>

namespace millrace {

/// Bytes of the longest prefix that is valid UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above
/// U+10FFFF): `text.size()` when all of it is, else the offset of the first character that is not.
size_t valid_utf8_prefix(std::string_view text);

inline bool is_valid_utf8(std::string_view text) { return valid_utf8_prefix(text) == text.size(); }

}  // namespace millrace

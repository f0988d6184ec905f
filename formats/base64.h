#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace millrace {

/// The bytes that base64 with padding (RFC 4648, section 4) stands for; nothing when the text is not that.
std::optional<std::string> decode_base64(std::string_view text);
std::string encode_base64(std::string_view bytes);

}  // namespace millrace

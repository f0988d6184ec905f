#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace millrace {

/// The time of a date in a field of HTTP (RFC 9110, 5.6.7), in any of its forms; nothing where the text is none, or is
/// of a time before 1970 or after 2200: clocks of nanoseconds end soon after that.
[[nodiscard]] std::optional<std::chrono::sys_seconds> parse_http_date(const std::string& text);

}  // namespace millrace

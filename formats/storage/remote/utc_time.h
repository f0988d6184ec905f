#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace millrace {

/// A time in RFC 3339, as `2026-11-28T13:00:00Z`, seconds with any fraction; nothing where the text has another form or
/// no zone. Years after 2200 are that one.
[[nodiscard]] std::optional<std::chrono::system_clock::time_point> parse_utc_time(std::string_view text);

}  // namespace millrace

#pragma once

#include <string>
#include <vector>

namespace millrace {

/// The URLs that a pattern without a listing stands for: `{A..B}`, two numbers, are all from A to B, with at least as
/// many digits as A has. The last such place changes first. Throws `kInvalidArgument` for `*` and `[`, which no server
/// of HTTP can list, for numbers that fall, and for more than a million URLs.
[[nodiscard]] std::vector<std::string> expand_url(const std::string& pattern);

}  // namespace millrace

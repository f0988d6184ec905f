#pragma once

#include <functional>
#include <string_view>

namespace millrace {

/// Calls `take` with each extended grapheme cluster (UAX #29) of valid UTF-8, from left to right. Runs of ASCII cost no
/// look into tables. Any thread.
void for_each_grapheme(std::string_view text, const std::function<void(std::string_view)>& take);

}  // namespace millrace

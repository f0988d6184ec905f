#pragma once

#include <string>
#include <string_view>

namespace millrace {

/// With the letters of ASCII in lower case, in every locale.
[[nodiscard]] std::string lower_case(std::string_view text);

}  // namespace millrace

#pragma once

#include <string_view>

namespace millrace {

/// Whether a text, valid UTF-8, is nothing but white space, as Unicode says it.
[[nodiscard]] bool is_blank(std::string_view text);

}  // namespace millrace

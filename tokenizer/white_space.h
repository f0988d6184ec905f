#pragma once

#include <cstddef>
#include <string_view>

namespace millrace {

/// Bytes of white space (Unicode's White_Space, `\s` of regular expressions) that valid UTF-8 begins with.
size_t white_space_at_begin(std::string_view text);
/// The same at its end.
size_t white_space_at_end(std::string_view text);

}  // namespace millrace

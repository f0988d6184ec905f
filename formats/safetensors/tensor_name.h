#pragma once

#include <string_view>

namespace millrace {

/// Whether a name has a character that would end or tear a line of text: U+0000 to U+001F, U+007F to U+009F. A tensor's
/// name with one is neither read nor written.
bool has_control_character(std::string_view name);

}  // namespace millrace

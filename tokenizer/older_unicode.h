#pragma once

#include <optional>

namespace millrace {

// Properties of characters as the tables of the Python package have them, which are of Unicode 8 and 9 whatever version
// ICU has: what came later has none of them.

/// Controls, formats and private use (`Cc`, `Cf`, `Co`) of Unicode 8.
bool is_control_of_unicode_8(char32_t character);
/// Nonspacing marks (`Mn`) of Unicode 8.
bool is_nonspacing_mark_of_unicode_8(char32_t character);
/// Punctuation (`P`) of Unicode 8, and what else of ASCII is neither letter, number, space nor control.
bool is_punctuation_of_unicode_8(char32_t character);
/// Marks of all kinds (`M`) of Unicode 9.
bool is_mark_of_unicode_9(char32_t character);
/// The script of a character (UAX #24, numbered as ICU does), or nothing for what Unicode 9 does not have.
std::optional<int> script_of_unicode_9(char32_t character);

}  // namespace millrace

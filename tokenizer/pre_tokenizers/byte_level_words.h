#pragma once

#include <cstddef>
#include <string_view>

namespace millrace {

/// Where the word of GPT-2's byte-level models that begins at byte `begin`, below the size, ends: the first that fits
/// of
/// `'s`, `'t`, `'re`, `'ve`, `'m`, `'ll`, `'d`; letters, numbers, or what is neither nor white space, each with a space
/// before it; white space, but for its last character where a word follows. As the regular expression
/// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+` finds it.
size_t end_of_byte_level_word(std::string_view text, size_t begin);

}  // namespace millrace

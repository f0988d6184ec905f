#pragma once

#include <cstddef>
#include <string_view>

namespace millrace {

/// Unicode's White_Space, `\s` of regular expressions.
bool is_white_space(char32_t character);
/// `\w` of regular expressions (https://unicode.org/reports/tr18, Annex C): letters and what is like them, marks,
/// decimal digits, connector punctuation, joiners.
bool is_word_character(char32_t character);

/// What the words of byte-level models are made of.
enum class CharacterKind : unsigned char {
  kLetter,      ///< `\p{L}`
  kNumber,      ///< `\p{N}`
  kWhiteSpace,  ///< `\s`
  kOther,
};
CharacterKind character_kind(char32_t character);

/// Bytes of white space that valid UTF-8 begins with.
size_t white_space_at_begin(std::string_view text);
/// The same at its end.
size_t white_space_at_end(std::string_view text);

}  // namespace millrace

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace millrace {

/// A code point of a text and the bytes of UTF-8 that it takes there.
struct Utf8Character {
  char32_t value = 0;
  uint32_t size = 0;
};

/// Whether this byte is inside a character, not its first.
constexpr bool is_continuation_byte(char byte) { return (static_cast<uint8_t>(byte) & 0xc0) == 0x80; }

/// Bytes of the character that begins with `first`.
constexpr uint32_t character_size(char first) {
  const auto byte = static_cast<uint8_t>(first);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

/// The character that begins at byte `at`, below the size, of valid UTF-8.
Utf8Character character_at(std::string_view text, size_t at);
/// The one that ends at byte `end`, above 0.
Utf8Character character_before(std::string_view text, size_t end);

/// Code points of valid UTF-8.
size_t num_characters(std::string_view text);

bool is_ascii(std::string_view text);

void append_character(char32_t character, std::string& text);

/// Any bytes as UTF-8: U+FFFD stands for each longest beginning of a character that does not go on as one (Unicode 3.9,
/// "U+FFFD Substitution of Maximal Subparts").
std::string replace_invalid_utf8(std::string_view bytes);

}  // namespace millrace

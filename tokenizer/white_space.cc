#include "tokenizer/white_space.h"

#include <cstdint>

namespace millrace {
namespace {

// Bytes of the white-space character at the beginning, or 0: U+0009 to U+000D, U+0020, U+0085, U+00A0, U+1680, U+2000
// to U+200A, U+2028, U+2029, U+202F, U+205F, U+3000 (PropList.txt of Unicode 15).
size_t white_space_character(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  if ((byte(0) >= 0x09 && byte(0) <= 0x0d) || byte(0) == 0x20) return 1;
  if (byte(0) == 0xc2 && text.size() >= 2) return byte(1) == 0x85 || byte(1) == 0xa0 ? 2 : 0;
  if (text.size() < 3) return 0;
  const uint32_t three = uint32_t{byte(0)} << 16 | uint32_t{byte(1)} << 8 | byte(2);
  if (three >= 0xe28080 && three <= 0xe2808a) return 3;
  switch (three) {
    case 0xe19a80:
    case 0xe280a8:
    case 0xe280a9:
    case 0xe280af:
    case 0xe2819f:
    case 0xe38080: return 3;
    default: return 0;
  }
}

}  // namespace

size_t white_space_at_begin(std::string_view text) {
  size_t size = 0;
  while (const size_t next = white_space_character(text.substr(size))) size += next;
  return size;
}

size_t white_space_at_end(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0) {
    size_t character = begin - 1;
    while (character > 0 && (static_cast<uint8_t>(text[character]) & 0xc0) == 0x80) --character;
    if (white_space_character(text.substr(character, begin - character)) == 0) break;
    begin = character;
  }
  return text.size() - begin;
}

}  // namespace millrace

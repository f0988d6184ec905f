#include "millrace/tokenizer/utf8_characters.h"

#include <algorithm>

#include "millrace/formats/utf8.h"

namespace millrace {
namespace {

// Bytes of the longest beginning of a character that `bytes`, which do not begin with a whole one, begin with; at
// least 1.
size_t maximal_subpart(std::string_view bytes) {
  size_t size = 1;
  while (size < bytes.size() && size < character_size(bytes[0]) && is_continuation_byte(bytes[size])) {
    // It may go on if there are bytes that make it whole.
    std::string completed(bytes.substr(0, size + 1));
    bool may_go_on = false;
    for (const char last : {'\x80', '\x90', '\xa0', '\xbf'}) {
      std::string whole = completed;
      whole.resize(character_size(bytes[0]), last);
      may_go_on |= is_valid_utf8(whole);
    }
    if (!may_go_on) break;
    ++size;
  }
  return size;
}

}  // namespace

Utf8Character character_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[at + i])); };
  switch (character_size(text[at])) {
    case 1: return {byte(0), 1};
    case 2: return {(byte(0) & 0x1f) << 6 | (byte(1) & 0x3f), 2};
    case 3: return {(byte(0) & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f), 3};
    default: return {(byte(0) & 0x07) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f), 4};
  }
}

Utf8Character character_before(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && is_continuation_byte(text[begin])) --begin;
  return character_at(text, begin);
}

size_t num_characters(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return !is_continuation_byte(byte); }));
}

bool is_ascii(std::string_view text) {
  uint8_t all = 0;
  for (const char byte : text) all |= static_cast<uint8_t>(byte);
  return all < 0x80;
}

void append_character(char32_t character, std::string& text) {
  const auto low_bits = [](char32_t bits) { return static_cast<char>(0x80 | (bits & 0x3f)); };
  if (character < 0x80) {
    text.push_back(static_cast<char>(character));
  } else if (character < 0x800) {
    text.append({static_cast<char>(0xc0 | character >> 6), low_bits(character)});
  } else if (character < 0x10000) {
    text.append({static_cast<char>(0xe0 | character >> 12), low_bits(character >> 6), low_bits(character)});
  } else {
    text.append({static_cast<char>(0xf0 | character >> 18), low_bits(character >> 12), low_bits(character >> 6),
                 low_bits(character)});
  }
}

std::string replace_invalid_utf8(std::string_view bytes) {
  std::string text;
  while (true) {
    const size_t valid = valid_utf8_prefix(bytes);
    text.append(bytes.substr(0, valid));
    bytes.remove_prefix(valid);
    if (bytes.empty()) return text;
    append_character(0xfffd, text);
    bytes.remove_prefix(maximal_subpart(bytes));
  }
}

}  // namespace millrace

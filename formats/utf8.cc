#include "millrace/formats/utf8.h"

#include <cstdint>
#include <cstring>

namespace millrace {

size_t valid_utf8_prefix(std::string_view text) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  const size_t size = text.size();
  size_t at = 0;
  while (at < size) {
    // Eight ASCII characters at a time.
    if (size - at >= 8) {
      uint64_t eight;
      std::memcpy(&eight, bytes + at, sizeof(eight));
      if ((eight & 0x8080808080808080u) == 0) {
        at += 8;
        continue;
      }
    }
    const uint8_t first = bytes[at];
    if (first < 0x80) {
      ++at;
      continue;
    }
    // The range of the second byte keeps out overlong forms, surrogates and what is above U+10FFFF.
    size_t more;
    uint8_t lowest = 0x80;
    uint8_t highest = 0xbf;
    if (first >= 0xc2 && first <= 0xdf) {
      more = 1;
    } else if (first >= 0xe0 && first <= 0xef) {
      more = 2;
      if (first == 0xe0) lowest = 0xa0;
      if (first == 0xed) highest = 0x9f;
    } else if (first >= 0xf0 && first <= 0xf4) {
      more = 3;
      if (first == 0xf0) lowest = 0x90;
      if (first == 0xf4) highest = 0x8f;
    } else {
      return at;
    }
    if (size - at <= more || bytes[at + 1] < lowest || bytes[at + 1] > highest) return at;
    for (size_t i = 2; i <= more; ++i) {
      if ((bytes[at + i] & 0xc0) != 0x80) return at;
    }
    at += more + 1;
  }
  return size;
}

std::string excerpt(std::string_view text, size_t most) {
  const auto begins_character = [](char c) { return (static_cast<uint8_t>(c) & 0xc0U) != 0x80; };
  size_t characters = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_enough = begins_character(text[i]) && characters++ == most;
    if (is_enough || i == 4 * most) return std::string(text.substr(0, i)) + "...";
  }
  return std::string(text);
}

std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  const auto escape = [&shown](char c) {
    constexpr char kHexDigits[] = "0123456789abcdef";
    const auto byte = static_cast<uint8_t>(c);
    shown += {'\\', 'x', kHexDigits[byte >> 4U], kHexDigits[byte & 15U]};
  };
  size_t valid_to = valid_utf8_prefix(text);
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (i == valid_to) {
      escape(c);
      valid_to = i + 1 + valid_utf8_prefix(text.substr(i + 1));
    } else if (c == '\n') {
      shown += "\\n";
    } else if (c == '\t') {
      shown += "\\t";
    } else if (c == '\r') {
      shown += "\\r";
    } else if (static_cast<uint8_t>(c) < 0x20 || c == 0x7f) {
      escape(c);
    } else if (c == '\xc2' && static_cast<uint8_t>(text[i + 1]) < 0xa0) {  // U+0080 to U+009F
      escape(c);
      escape(text[++i]);
    } else {
      shown += c;
    }
  }
  return shown;
}

}  // namespace millrace

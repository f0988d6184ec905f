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

}  // namespace millrace

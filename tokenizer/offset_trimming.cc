#include "tokenizer/offset_trimming.h"

#include <algorithm>

#include "tokenizer/character_classes.h"
#include "tokenizer/utf8_characters.h"

namespace millrace {
namespace {

constexpr char32_t kByteLevelSpace = 0x120;

bool is_space(char32_t character) { return character == kByteLevelSpace || is_white_space(character); }

int64_t spaces_at_begin(std::string_view token) {
  int64_t count = 0;
  for (size_t at = 0; at < token.size(); ++count) {
    const Utf8Character character = character_at(token, at);
    if (!is_space(character.value)) break;
    at += character.size;
  }
  return count;
}

int64_t spaces_at_end(std::string_view token) {
  int64_t count = 0;
  for (size_t end = token.size(); end > 0; ++count) {
    const Utf8Character character = character_before(token, end);
    if (!is_space(character.value)) break;
    end -= character.size;
  }
  return count;
}

}  // namespace

void trim_offsets(bool add_prefix_space, bool spare_first, TokenEncoding& encoding) {
  for (size_t i = 0; i < encoding.tokens.size(); ++i) {
    TextSpan& offsets = encoding.offsets[i];
    int64_t leading = spaces_at_begin(encoding.tokens[i]);
    const int64_t trailing = spaces_at_end(encoding.tokens[i]);
    if (leading > 0) {
      const bool begins_text = (spare_first && i == 0) || offsets.begin == 0;
      // One is what was added; more are the text's own.
      if (begins_text && add_prefix_space && leading == 1) leading = 0;
      offsets.begin = std::min(offsets.begin + leading, offsets.end);
    }
    if (trailing > 0 && offsets.end >= trailing) offsets.end = std::max(offsets.end - trailing, offsets.begin);
  }
}

}  // namespace millrace

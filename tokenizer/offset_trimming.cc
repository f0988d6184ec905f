#include "millrace/tokenizer/offset_trimming.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "millrace/tokenizer/character_classes.h"
#include "millrace/tokenizer/utf8_characters.h"

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

// Takes the white space at the ends of a text's tokens, as byte-level models write it, out of their offsets, which
// count code points. `add_prefix_space`: a single character of white space in front of a token was added, and is left
// as it is, where the offsets begin with the text or, with `spare_first`, the token is the first one.
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

// Where the code points of a text begin, and its end.
std::vector<int64_t> character_begins(std::string_view text) {
  std::vector<int64_t> begins;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!is_continuation_byte(text[i])) begins.push_back(static_cast<int64_t>(i));
  }
  begins.push_back(static_cast<int64_t>(text.size()));
  return begins;
}

}  // namespace

void set_offsets(std::string_view text, std::span<const OffsetTrimming> trimmings, bool is_second,
                 bool add_special_tokens, TokenEncoding& encoding) {
  const std::vector<int64_t> begins = character_begins(text);
  const auto code_points_before = [&](int64_t byte) {
    return std::lower_bound(begins.begin(), begins.end(), byte) - begins.begin();
  };
  for (const TextSpan& bytes : encoding.byte_offsets) {
    encoding.offsets.push_back({code_points_before(bytes.begin), code_points_before(bytes.end)});
  }
  if (trimmings.empty()) return;
  for (const OffsetTrimming& trimming : trimmings) {
    const bool joined = is_second ? trimming.joined.before_second_text : trimming.joined.before_first_text;
    const bool is_first = !(joined && add_special_tokens);
    trim_offsets(trimming.add_prefix_space, /*spare_first=*/is_first, encoding);
  }
  for (size_t i = 0; i < encoding.offsets.size(); ++i) {
    const TextSpan& offsets = encoding.offsets[i];
    encoding.byte_offsets[i] = {begins[static_cast<size_t>(offsets.begin)], begins[static_cast<size_t>(offsets.end)]};
  }
}

}  // namespace millrace

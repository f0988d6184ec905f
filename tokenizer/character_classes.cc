#include "millrace/tokenizer/character_classes.h"

#include <array>

#include <unicode/uchar.h>

#include "millrace/tokenizer/utf8_characters.h"

namespace millrace {
namespace {

CharacterKind kind_by_category(char32_t character) {
  const auto code_point = static_cast<UChar32>(character);
  const uint32_t category = U_GET_GC_MASK(code_point);
  if ((category & U_GC_L_MASK) != 0) return CharacterKind::kLetter;
  if ((category & U_GC_N_MASK) != 0) return CharacterKind::kNumber;
  return u_isUWhiteSpace(code_point) ? CharacterKind::kWhiteSpace : CharacterKind::kOther;
}

// Most text is here.
constexpr size_t kNumTabled = 0x250;
const std::array<CharacterKind, kNumTabled>& kind_table() {
  static const std::array<CharacterKind, kNumTabled> table = [] {
    std::array<CharacterKind, kNumTabled> kinds{};
    for (size_t i = 0; i < kNumTabled; ++i) kinds[i] = kind_by_category(static_cast<char32_t>(i));
    return kinds;
  }();
  return table;
}

}  // namespace

bool is_white_space(char32_t character) {
  if (character < 0x80) return character == ' ' || (character >= '\t' && character <= '\r');
  return u_isUWhiteSpace(static_cast<UChar32>(character)) != 0;
}

bool is_word_character(char32_t character) {
  const auto code_point = static_cast<UChar32>(character);
  const uint32_t category = U_GET_GC_MASK(code_point);
  return (category & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0 || u_isUAlphabetic(code_point) != 0 ||
         u_hasBinaryProperty(code_point, UCHAR_JOIN_CONTROL) != 0;
}

CharacterKind character_kind(char32_t character) {
  return character < kNumTabled ? kind_table()[character] : kind_by_category(character);
}

size_t white_space_at_begin(std::string_view text) {
  size_t end = 0;
  while (end < text.size()) {
    const Utf8Character character = character_at(text, end);
    if (!is_white_space(character.value)) break;
    end += character.size;
  }
  return end;
}

size_t white_space_at_end(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0) {
    const Utf8Character character = character_before(text, begin);
    if (!is_white_space(character.value)) break;
    begin -= character.size;
  }
  return text.size() - begin;
}

}  // namespace millrace

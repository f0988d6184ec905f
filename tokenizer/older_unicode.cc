#include "millrace/tokenizer/older_unicode.h"

#include <unicode/uchar.h>
#include <unicode/uscript.h>

namespace millrace {
namespace {

bool is_in_unicode(UChar32 character, int version) {
  UVersionInfo age;  // all zeros for what no version has
  u_charAge(character, static_cast<uint8_t*>(age));
  return age[0] > 0 && age[0] <= version;
}

bool has_category(UChar32 character, uint32_t mask, int version) {
  return (U_GET_GC_MASK(character) & mask) != 0 && is_in_unicode(character, version);
}

constexpr bool is_punctuation_of_ascii(char32_t character) {
  return (character >= '!' && character <= '/') || (character >= ':' && character <= '@') ||
         (character >= '[' && character <= '`') || (character >= '{' && character <= '~');
}

}  // namespace

// Unicode keeps a character's category but for mistakes: the cases below are those of the versions since.

bool is_control_of_unicode_8(char32_t character) {
  if (character < 0x7f) return character < 0x20;
  return has_category(static_cast<UChar32>(character), U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK, 8);
}

bool is_nonspacing_mark_of_unicode_8(char32_t character) {
  switch (character) {
    case 0x1734: return true;    // HANUNOO SIGN PAMUDPOD
    case 0x1885:                 // MONGOLIAN LETTER ALI GALI BALUDA
    case 0x1886:                 // MONGOLIAN LETTER ALI GALI THREE BALUDA
    case 0xa9bd:                 // JAVANESE CONSONANT SIGN KERET
    case 0x111c9: return false;  // SHARADA SANDHI MARK
    default: return has_category(static_cast<UChar32>(character), U_GC_MN_MASK, 8);
  }
}

bool is_punctuation_of_unicode_8(char32_t character) {
  if (character < 0x80) return is_punctuation_of_ascii(character);
  switch (character) {
    case 0x166d:                // CANADIAN SYLLABICS CHI SIGN
    case 0x111c9: return true;  // SHARADA SANDHI MARK
    default: return has_category(static_cast<UChar32>(character), U_GC_P_MASK, 8);
  }
}

bool is_mark_of_unicode_9(char32_t character) {
  switch (character) {
    case 0x1cf2:                 // VEDIC SIGN ARDHAVISARGA
    case 0x1cf3: return true;    // VEDIC SIGN ROTATED ARDHAVISARGA
    case 0x111c9: return false;  // SHARADA SANDHI MARK
    default: return has_category(static_cast<UChar32>(character), U_GC_M_MASK, 9);
  }
}

std::optional<int> script_of_unicode_9(char32_t character) {
  switch (character) {
    case 0x589:                             // ARMENIAN FULL STOP
    case 0x61c: return USCRIPT_COMMON;      // ARABIC LETTER MARK
    case 0x953:                             // DEVANAGARI GRAVE ACCENT
    case 0x954: return USCRIPT_DEVANAGARI;  // DEVANAGARI ACUTE ACCENT
    default: break;
  }
  const auto code_point = static_cast<UChar32>(character);
  if (!is_in_unicode(code_point, 9)) return std::nullopt;
  UErrorCode status = U_ZERO_ERROR;
  const UScriptCode script = uscript_getScript(code_point, &status);
  if (U_FAILURE(status) != 0 || script == USCRIPT_UNKNOWN) return std::nullopt;
  return script;
}

}  // namespace millrace

#include "millrace/tokenizer/normalizers/strip_accents.h"

#include <nlohmann/json.hpp>

#include "millrace/tokenizer/normalizers/character_edit.h"
#include "millrace/tokenizer/older_unicode.h"
#include "millrace/tokenizer/utf8_characters.h"

namespace millrace {
namespace {

CharacterEdit edit_of(char32_t character) {
  return is_mark_of_unicode_9(character) ? CharacterEdit::kDrop : CharacterEdit::kKeep;
}

}  // namespace

void StripAccentsNormalizer::apply(AlignedText& text, AlignedText& spare) const {
  if (!is_ascii(text.text())) edit_characters(edit_of, text, spare);
}

nlohmann::ordered_json StripAccentsNormalizer::to_json() const { return {{"type", "StripAccents"}}; }

}  // namespace millrace

#include "millrace/tokenizer/normalizers/character_edit.h"

#include <utility>

#include "millrace/tokenizer/utf8_characters.h"

namespace millrace {

void edit_characters(CharacterEdit (*edit_of)(char32_t), AlignedText& text, AlignedText& spare) {
  const std::string_view before = text.text();
  bool changed = false;
  size_t copied = 0;
  for (size_t at = 0; at < before.size();) {
    const Utf8Character character = character_at(before, at);
    const CharacterEdit edit = edit_of(character.value);
    if (edit != CharacterEdit::kKeep) {
      if (!changed) spare.clear(text.tracking());
      changed = true;
      spare.append(text, copied, at);
      if (edit == CharacterEdit::kMakeSpace) spare.append_new(" ", text, at);
      copied = at + character.size;
    }
    at += character.size;
  }
  if (!changed) return;
  spare.append(text, copied, before.size());
  std::swap(text, spare);
}

}  // namespace millrace

#include "examples/csv/blank_text.h"

#include "millrace/tokenizer/character_classes.h"
#include "millrace/tokenizer/utf8_characters.h"

namespace millrace {

bool is_blank(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Character character = character_at(text, at);
    if (!is_white_space(character.value)) return false;
    at += character.size;
  }
  return true;
}

}  // namespace millrace

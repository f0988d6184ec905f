#include "millrace/tokenizer/pre_tokenizers/byte_level_words.h"

#include "millrace/tokenizer/character_classes.h"
#include "millrace/tokenizer/utf8_characters.h"

namespace millrace {
namespace {

struct Next {
  CharacterKind kind;
  uint32_t size;
};

Next next_at(std::string_view text, size_t at) {
  const Utf8Character character = character_at(text, at);
  return {character_kind(character.value), character.size};
}

// Bytes of a contraction after its apostrophe, or 0.
size_t contraction_size(std::string_view rest) {
  if (rest.starts_with("re") || rest.starts_with("ve") || rest.starts_with("ll")) return 2;
  return !rest.empty() && (rest[0] == 's' || rest[0] == 't' || rest[0] == 'm' || rest[0] == 'd') ? 1 : 0;
}

}  // namespace

size_t end_of_byte_level_word(std::string_view text, size_t begin) {
  if (text[begin] == '\'') {
    if (const size_t size = contraction_size(text.substr(begin + 1))) return begin + 1 + size;
  }
  size_t at = begin;
  if (text[begin] == ' ' && begin + 1 < text.size()) ++at;
  const Next first = next_at(text, at);
  if (first.kind != CharacterKind::kWhiteSpace) {
    at += first.size;
    while (at < text.size()) {
      const Next next = next_at(text, at);
      if (next.kind != first.kind) break;
      at += next.size;
    }
    return at;
  }
  size_t last = begin;  // where the last character of white space begins
  at = begin;
  while (at < text.size()) {
    const Next next = next_at(text, at);
    if (next.kind != CharacterKind::kWhiteSpace) return last > begin ? last : at;
    last = at;
    at += next.size;
  }
  return at;
}

}  // namespace millrace

#include "millrace/tokenizer/pre_tokenizers/runs.h"

#include <utility>

#include "millrace/tokenizer/utf8_characters.h"

namespace millrace {

void cut_into_runs(int (*kind_of)(char32_t), WordedText& text, WordedText& spare) {
  const std::string_view before = text.text.text();
  AlignedText& after = spare.text;
  after.clear(text.text.tracking());
  spare.word_ends.clear();
  size_t begin = 0;
  for (const uint32_t end : text.word_ends) {
    size_t at = begin;
    while (at < end) {
      Utf8Character character = character_at(before, at);
      const int kind = kind_of(character.value);
      const size_t run_begin = at;
      do {
        at += character.size;
        if (at == end) break;
        character = character_at(before, at);
      } while (kind != kSingleCharacters && kind_of(character.value) == kind);
      if (kind == kDroppedRun) continue;
      after.append(text.text, run_begin, at);
      spare.word_ends.push_back(static_cast<uint32_t>(after.text().size()));
    }
    begin = end;
  }
  std::swap(text, spare);
}

}  // namespace millrace

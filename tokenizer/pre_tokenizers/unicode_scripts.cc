#include "millrace/tokenizer/pre_tokenizers/unicode_scripts.h"

#include <utility>

#include <nlohmann/json.hpp>
#include <unicode/uscript.h>

#include "millrace/tokenizer/older_unicode.h"
#include "millrace/tokenizer/utf8_characters.h"

namespace millrace {
namespace {

constexpr char32_t kProlongedSoundMark = 0x30fc;  // common to Hiragana and Katakana

std::optional<int> script_in_words(char32_t character) {
  if (character == ' ') return std::nullopt;
  if (character == kProlongedSoundMark) return USCRIPT_HAN;
  const std::optional<int> script = script_of_unicode_9(character);
  return script == USCRIPT_HIRAGANA || script == USCRIPT_KATAKANA ? USCRIPT_HAN : script;
}

}  // namespace

void UnicodeScriptsPreTokenizer::apply(WordedText& text, WordedText& spare) const {
  const std::string_view before = text.text.text();
  spare.text.clear(text.text.tracking());
  spare.word_ends.clear();
  size_t at = 0;
  for (const uint32_t end : text.word_ends) {
    std::optional<int> last;
    size_t begin = at;  // of the word, once there is a script
    const auto take_word = [&] {
      if (last) {
        spare.text.append(text.text, begin, at);
        spare.word_ends.push_back(static_cast<uint32_t>(spare.text.text().size()));
      }
      begin = at;
    };
    while (at < end) {
      const Utf8Character character = character_at(before, at);
      const std::optional<int> script = script_in_words(character.value);
      if (script && script != last) {
        take_word();
        last = script;
      }
      at += character.size;
    }
    take_word();
  }
  std::swap(text, spare);
}

nlohmann::ordered_json UnicodeScriptsPreTokenizer::to_json() const { return {{"type", "UnicodeScripts"}}; }

}  // namespace millrace

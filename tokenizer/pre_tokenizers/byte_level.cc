#include "millrace/tokenizer/pre_tokenizers/byte_level.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "millrace/tokenizer/pre_tokenizers/byte_level_words.h"

namespace millrace {
namespace {

void add_prefix_spaces(WordedText& text, WordedText& spare) {
  const std::string_view before = text.text.text();
  spare.text.clear(text.text.tracking());
  spare.word_ends.clear();
  size_t begin = 0;
  for (const uint32_t end : text.word_ends) {
    if (before[begin] != ' ') spare.text.append_new(" ", text.text, begin);
    spare.text.append(text.text, begin, end);
    spare.word_ends.push_back(static_cast<uint32_t>(spare.text.text().size()));
    begin = end;
  }
  std::swap(text, spare);
}

}  // namespace

void ByteLevelPreTokenizer::apply(WordedText& text, WordedText& spare) const {
  if (options_.add_prefix_space) add_prefix_spaces(text, spare);
  const std::string_view before = text.text.text();
  spare.text.clear(text.text.tracking());
  spare.word_ends.clear();
  size_t begin = 0;
  for (const uint32_t end : text.word_ends) {
    const std::string_view whole = before.substr(0, end);
    while (begin < end) {
      const size_t word_end = options_.use_regex ? end_of_byte_level_word(whole, begin) : end;
      spare.text.append_byte_characters(text.text, begin, word_end);
      spare.word_ends.push_back(static_cast<uint32_t>(spare.text.text().size()));
      begin = word_end;
    }
  }
  std::swap(text, spare);
}

nlohmann::ordered_json ByteLevelPreTokenizer::to_json() const { return options_.to_json(); }

}  // namespace millrace

#include "millrace/tokenizer/pre_tokenizers/whitespace.h"

#include <nlohmann/json.hpp>

#include "millrace/tokenizer/character_classes.h"
#include "millrace/tokenizer/pre_tokenizers/runs.h"

namespace millrace {
namespace {

constexpr int kWord = 1;
constexpr int kOther = 2;

int kind_of(char32_t character) {
  if (is_word_character(character)) return kWord;
  return is_white_space(character) ? kDroppedRun : kOther;
}

}  // namespace

void WhitespacePreTokenizer::apply(WordedText& text, WordedText& spare) const { cut_into_runs(kind_of, text, spare); }

nlohmann::ordered_json WhitespacePreTokenizer::to_json() const { return {{"type", "Whitespace"}}; }

}  // namespace millrace

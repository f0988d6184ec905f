#include "millrace/tokenizer/pre_tokenizers/bert_pre_tokenizer.h"

#include <nlohmann/json.hpp>

#include "millrace/tokenizer/character_classes.h"
#include "millrace/tokenizer/older_unicode.h"
#include "millrace/tokenizer/pre_tokenizers/runs.h"

namespace millrace {
namespace {

constexpr int kWord = 1;

int kind_of(char32_t character) {
  if (is_white_space(character)) return kDroppedRun;
  return is_punctuation_of_unicode_8(character) ? kSingleCharacters : kWord;
}

}  // namespace

void BertPreTokenizer::apply(WordedText& text, WordedText& spare) const { cut_into_runs(kind_of, text, spare); }

nlohmann::ordered_json BertPreTokenizer::to_json() const { return {{"type", "BertPreTokenizer"}}; }

}  // namespace millrace

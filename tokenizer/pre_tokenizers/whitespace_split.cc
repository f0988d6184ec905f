#include "millrace/tokenizer/pre_tokenizers/whitespace_split.h"

#include <nlohmann/json.hpp>

#include "millrace/tokenizer/character_classes.h"
#include "millrace/tokenizer/pre_tokenizers/runs.h"

namespace millrace {
namespace {

constexpr int kWord = 1;

int kind_of(char32_t character) { return is_white_space(character) ? kDroppedRun : kWord; }

}  // namespace

void WhitespaceSplitPreTokenizer::apply(WordedText& text, WordedText& spare) const {
  cut_into_runs(kind_of, text, spare);
}

nlohmann::ordered_json WhitespaceSplitPreTokenizer::to_json() const { return {{"type", "WhitespaceSplit"}}; }

}  // namespace millrace

#include "millrace/tokenizer/pre_tokenizers/digits.h"

#include <nlohmann/json.hpp>

#include "millrace/tokenizer/character_classes.h"
#include "millrace/tokenizer/pre_tokenizers/word_splitter.h"

namespace millrace {
namespace {

bool is_number(char32_t character) { return character_kind(character) == CharacterKind::kNumber; }

}  // namespace

DigitsPreTokenizer::DigitsPreTokenizer(const JsonNode& node)
    : individual_digits_(node.member("individual_digits").boolean()) {
  node.require_members_among({"type", "individual_digits"});
}

void DigitsPreTokenizer::apply(WordedText& text, WordedText& spare) const {
  const SplitBehavior behavior = individual_digits_ ? SplitBehavior::kIsolated : SplitBehavior::kContiguous;
  split_at_characters(is_number, behavior, text, spare);
}

nlohmann::ordered_json DigitsPreTokenizer::to_json() const {
  return {{"type", "Digits"}, {"individual_digits", individual_digits_}};
}

}  // namespace millrace

#include "millrace/tokenizer/pre_tokenizers/punctuation.h"

#include <nlohmann/json.hpp>

#include "millrace/tokenizer/older_unicode.h"

namespace millrace {

PunctuationPreTokenizer::PunctuationPreTokenizer(const JsonNode& node) {
  node.require_members_among({"type", "behavior"});
  if (const auto behavior = node.find("behavior")) behavior_ = read_split_behavior(*behavior);
}

void PunctuationPreTokenizer::apply(WordedText& text, WordedText& spare) const {
  split_at_characters(is_punctuation_of_unicode_8, behavior_, text, spare);
}

nlohmann::ordered_json PunctuationPreTokenizer::to_json() const {
  return {{"type", "Punctuation"}, {"behavior", name_of(behavior_)}};
}

}  // namespace millrace

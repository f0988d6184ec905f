#include "millrace/tokenizer/pre_tokenizers/fixed_length.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "millrace/tokenizer/utf8_characters.h"

namespace millrace {

FixedLengthPreTokenizer::FixedLengthPreTokenizer(const JsonNode& node) {
  node.require_members_among({"type", "length"});
  if (const auto length = node.find("length")) {
    length_ = length->count();
    if (length_ == 0) length->fail("is 0, must be above");
  }
}

void FixedLengthPreTokenizer::apply(WordedText& text, WordedText& spare) const {
  const std::string_view whole = text.text.text();
  spare.word_ends.clear();
  size_t at = 0;
  for (const uint32_t end : text.word_ends) {
    while (at < end) {
      for (size_t i = 0; i < length_ && at < end; ++i) at += character_size(whole[at]);
      spare.word_ends.push_back(static_cast<uint32_t>(at));
    }
  }
  std::swap(text.word_ends, spare.word_ends);
}

nlohmann::ordered_json FixedLengthPreTokenizer::to_json() const {
  return {{"type", "FixedLength"}, {"length", length_}};
}

}  // namespace millrace

#include "millrace/tokenizer/pre_tokenizers/split.h"

#include <nlohmann/json.hpp>

namespace millrace {

SplitPreTokenizer::SplitPreTokenizer(const JsonNode& node)
    : pattern_(node.member("pattern")),
      behavior_(read_split_behavior(node.member("behavior"))),
      invert_(node.member("invert").boolean()) {
  node.require_members_among({"type", "pattern", "behavior", "invert"});
}

void SplitPreTokenizer::apply(WordedText& text, WordedText& spare) const {
  const std::string_view before = text.text.text();
  WordSplitter splitter(behavior_, text, spare);
  size_t begin = 0;
  for (const uint32_t end : text.word_ends) {
    // An expression sees the word alone, as if it were the whole text.
    const std::string_view word = before.substr(begin, end - begin);
    TextPattern::Cursor cursor(pattern_, word);
    size_t taken = 0;
    while (const auto match = cursor.next()) {
      if (taken < match->begin) splitter.take(begin + match->begin, /*is_delimiter=*/invert_);
      splitter.take(begin + match->end, /*is_delimiter=*/!invert_);
      taken = match->end;
    }
    if (taken < word.size()) splitter.take(end, /*is_delimiter=*/invert_);
    splitter.end_word();
    begin = end;
  }
  splitter.finish();
}

nlohmann::ordered_json SplitPreTokenizer::to_json() const {
  return {{"type", "Split"}, {"pattern", pattern_.to_json()}, {"behavior", name_of(behavior_)}, {"invert", invert_}};
}

}  // namespace millrace

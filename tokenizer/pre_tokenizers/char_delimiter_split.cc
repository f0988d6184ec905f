#include "millrace/tokenizer/pre_tokenizers/char_delimiter_split.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/utf8.h"
#include "millrace/tokenizer/pre_tokenizers/word_splitter.h"
#include "millrace/tokenizer/utf8_characters.h"

namespace millrace {

CharDelimiterSplitPreTokenizer::CharDelimiterSplitPreTokenizer(const JsonNode& node)
    : delimiter_(node.member("delimiter").string()) {
  node.require_members_among({"type", "delimiter"});
  if (num_characters(delimiter_) != 1) {
    node.member("delimiter").fail(fmt::format("expected one character, found '{}'", excerpt(delimiter_)));
  }
}

void CharDelimiterSplitPreTokenizer::apply(WordedText& text, WordedText& spare) const {
  const std::string_view before = text.text.text();
  WordSplitter splitter(SplitBehavior::kRemoved, text, spare);
  size_t begin = 0;
  for (const uint32_t end : text.word_ends) {
    const std::string_view up_to_end = before.substr(0, end);
    for (size_t at = up_to_end.find(delimiter_, begin); at != std::string_view::npos;
         at = up_to_end.find(delimiter_, begin)) {
      splitter.take(at, /*is_delimiter=*/false);
      begin = at + delimiter_.size();
      splitter.take(begin, /*is_delimiter=*/true);
    }
    splitter.take(end, /*is_delimiter=*/false);
    splitter.end_word();
    begin = end;
  }
  splitter.finish();
}

nlohmann::ordered_json CharDelimiterSplitPreTokenizer::to_json() const {
  return {{"type", "CharDelimiterSplit"}, {"delimiter", delimiter_}};
}

}  // namespace millrace

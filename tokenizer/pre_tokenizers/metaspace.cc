#include "millrace/tokenizer/pre_tokenizers/metaspace.h"

#include <utility>

#include <nlohmann/json.hpp>

namespace millrace {

void MetaspacePreTokenizer::apply(WordedText& text, WordedText& spare) const {
  const std::string_view before = text.text.text();
  const std::string& mark = options_.replacement;
  AlignedText& after = spare.text;
  after.clear(text.text.tracking());
  spare.word_ends.clear();

  size_t begin = 0;
  for (const uint32_t end : text.word_ends) {
    const std::string_view word = before.substr(begin, end - begin);
    const bool prepend =
        options_.prepend == MetaspaceOptions::Prepend::kAlways ||
        (options_.prepend == MetaspaceOptions::Prepend::kFirst && text.text.original(begin, begin + 1).begin == 0);
    if (prepend && word[0] != ' ' && !word.starts_with(mark)) after.append_new(mark, text.text, begin);
    // [copied, at) is ordinary text that is not written yet.
    size_t copied = begin;
    const size_t word_begin = begin;
    for (size_t at = begin; at < end;) {
      const bool space = before[at] == ' ';
      if (!space && !(before[at] == mark[0] && before.substr(at, end - at).starts_with(mark))) {
        ++at;
        continue;
      }
      after.append(text.text, copied, at);
      if (options_.split && at > word_begin) spare.word_ends.push_back(static_cast<uint32_t>(after.text().size()));
      after.append_new(mark, text.text, at);
      at += space ? 1 : mark.size();
      copied = at;
    }
    after.append(text.text, copied, end);
    spare.word_ends.push_back(static_cast<uint32_t>(after.text().size()));
    begin = end;
  }
  std::swap(text, spare);
}

nlohmann::ordered_json MetaspacePreTokenizer::to_json() const { return options_.to_json(); }

}  // namespace millrace

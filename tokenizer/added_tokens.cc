#include "millrace/tokenizer/added_tokens.h"

#include <algorithm>

#include "millrace/tokenizer/character_classes.h"
#include "millrace/tokenizer/utf8_characters.h"

namespace millrace {
namespace {

bool is_inside_words(std::string_view text, size_t begin, size_t end) {
  return (begin > 0 && is_word_character(character_before(text, begin).value)) ||
         (end < text.size() && is_word_character(character_at(text, end).value));
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens, const std::vector<std::string>& contents)
    : tokens_(std::move(tokens)) {
  std::vector<std::pair<std::string_view, int32_t>> entries;
  for (size_t i = contents.size(); i-- > 0;) {
    entries.emplace_back(contents[i], static_cast<int32_t>(i));
    if (!contents[i].empty()) begins_[static_cast<uint8_t>(contents[i][0])] = true;
  }
  trie_ = ByteTrie(std::move(entries));
}

std::optional<AddedTokenMatcher::Match> AddedTokenMatcher::Cursor::next() {
  for (size_t begin = search_from_; begin < text_.size(); ++begin) {
    if (!matcher_.begins_[static_cast<uint8_t>(text_[begin])]) continue;
    int32_t found = -1;
    size_t found_end = 0;
    ByteTrie::Node node = ByteTrie::kRoot;
    for (size_t at = begin; at < text_.size(); ++at) {
      node = matcher_.trie_.step(node, text_[at]);
      if (node == ByteTrie::kNowhere) break;
      if (matcher_.trie_.value(node) >= 0) {
        found = matcher_.trie_.value(node);
        found_end = at + 1;
      }
    }
    if (found < 0) continue;
    const AddedToken& token = matcher_.tokens_[static_cast<size_t>(found)];
    if (token.single_word && is_inside_words(text_, begin, found_end)) {
      // What it covers is not searched again.
      begin = found_end - 1;
      continue;
    }
    Match match{begin, found_end, token.id};
    search_from_ = found_end;
    if (token.lstrip) match.begin = std::max(taken_, begin - white_space_at_end(text_.substr(0, begin)));
    if (token.rstrip) match.end += white_space_at_begin(text_.substr(found_end));
    taken_ = std::max(taken_, match.end);
    // White space that the token before took whole.
    if (match.begin >= match.end) {
      begin = found_end - 1;
      continue;
    }
    return match;
  }
  search_from_ = text_.size();
  return std::nullopt;
}

}  // namespace millrace

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/tokenizer/byte_trie.h"

namespace millrace {

/// A token beside the model's own, cut out of the text before anything else looks at it.
struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;  ///< not inside words
  bool lstrip = false;       ///< takes the white space before it
  bool rstrip = false;       ///< takes the white space after it
  bool normalized = false;   ///< looked for in the normalised text instead of the raw one
  bool special = false;      ///< left out of decoded text when special tokens are skipped
};

/// Finds added tokens in a text: leftmost, then longest. Immutable; any thread.
class AddedTokenMatcher {
 public:
  struct Match {
    size_t begin;
    size_t end;
    int32_t id;
  };

  AddedTokenMatcher() = default;
  /// Looks for `contents[i]`, which stands for `tokens[i]`; of equal ones the first counts.
  AddedTokenMatcher(std::vector<AddedToken> tokens, const std::vector<std::string>& contents);

  bool empty() const { return tokens_.empty(); }

  /// Goes over the matches of one text, from left to right.
  class Cursor {
   public:
    Cursor(const AddedTokenMatcher& matcher, std::string_view text) : matcher_(matcher), text_(text) {}
    /// The next match, the white space that it takes included.
    std::optional<Match> next();

   private:
    const AddedTokenMatcher& matcher_;
    std::string_view text_;
    size_t search_from_ = 0;  // after the last token itself
    size_t taken_ = 0;        // after the last match with its white space
  };

 private:
  std::vector<AddedToken> tokens_;
  ByteTrie trie_;
  std::array<bool, 256> begins_{};  // bytes that a token begins with
};

}  // namespace millrace

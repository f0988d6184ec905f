#pragma once

#include "millrace/tokenizer/pre_tokenizers/pre_tokenizer.h"

namespace millrace {

/// Begins a word where the script changes (that of Unicode 9, as the Python package's table has it), as sentencepiece
/// does when it looks for pieces. Hiragana and Katakana count as Han. A space, and what has no script, belongs to the
/// word before it; without one it is dropped, as the package does.
class UnicodeScriptsPreTokenizer final : public PreTokenizer {
 public:
  /// Reads `{"type": "UnicodeScripts"}`.
  explicit UnicodeScriptsPreTokenizer(const JsonNode& node) { node.require_members_among({"type"}); }

  void apply(WordedText& text, WordedText& spare) const override;
  nlohmann::ordered_json to_json() const override;
};

}  // namespace millrace

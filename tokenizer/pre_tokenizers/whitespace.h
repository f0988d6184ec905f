#pragma once

#include "millrace/tokenizer/pre_tokenizers/pre_tokenizer.h"

namespace millrace {

/// Words are runs of word characters, and runs of what is neither that nor white space: `\w+|[^\w\s]+`. White space is
/// dropped.
class WhitespacePreTokenizer final : public PreTokenizer {
 public:
  /// Reads `{"type": "Whitespace"}`.
  explicit WhitespacePreTokenizer(const JsonNode& node) { node.require_members_among({"type"}); }

  void apply(WordedText& text, WordedText& spare) const override;
  nlohmann::ordered_json to_json() const override;
};

}  // namespace millrace

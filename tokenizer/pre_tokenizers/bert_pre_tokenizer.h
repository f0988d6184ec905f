#pragma once

#include "millrace/tokenizer/pre_tokenizers/pre_tokenizer.h"

namespace millrace {

/// Words are what stands between white space, which is dropped, and punctuation (`is_punctuation_of_unicode_8`), each
/// character of which is a word.
class BertPreTokenizer final : public PreTokenizer {
 public:
  /// Reads `{"type": "BertPreTokenizer"}`.
  explicit BertPreTokenizer(const JsonNode& node) { node.require_members_among({"type"}); }

  void apply(WordedText& text, WordedText& spare) const override;
  nlohmann::ordered_json to_json() const override;
};

}  // namespace millrace

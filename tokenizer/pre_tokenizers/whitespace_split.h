#pragma once

#include "millrace/tokenizer/pre_tokenizers/pre_tokenizer.h"

namespace millrace {

/// Words are what stands between white space, which is dropped.
class WhitespaceSplitPreTokenizer final : public PreTokenizer {
 public:
  /// Reads `{"type": "WhitespaceSplit"}`.
  explicit WhitespaceSplitPreTokenizer(const JsonNode& node) { node.require_members_among({"type"}); }

  void apply(WordedText& text, WordedText& spare) const override;
  nlohmann::ordered_json to_json() const override;
};

}  // namespace millrace

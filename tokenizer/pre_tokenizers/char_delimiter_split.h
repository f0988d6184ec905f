#pragma once

#include "millrace/tokenizer/pre_tokenizers/pre_tokenizer.h"

namespace millrace {

/// Words are what stands between the occurrences of a character, which are dropped.
class CharDelimiterSplitPreTokenizer final : public PreTokenizer {
 public:
  /// Reads `{"type": "CharDelimiterSplit", "delimiter": …}`.
  explicit CharDelimiterSplitPreTokenizer(const JsonNode& node);

  void apply(WordedText& text, WordedText& spare) const override;
  nlohmann::ordered_json to_json() const override;

 private:
  std::string delimiter_;  // one character
};

}  // namespace millrace

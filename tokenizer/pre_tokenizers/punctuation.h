#pragma once

#include "millrace/tokenizer/pre_tokenizers/pre_tokenizer.h"
#include "millrace/tokenizer/pre_tokenizers/word_splitter.h"

namespace millrace {

/// Cuts words at each character of punctuation (`is_punctuation_of_unicode_8`).
class PunctuationPreTokenizer final : public PreTokenizer {
 public:
  /// Reads `{"type": "Punctuation", "behavior": …}`; older files have no `behavior`, which is then `Isolated`.
  explicit PunctuationPreTokenizer(const JsonNode& node);

  void apply(WordedText& text, WordedText& spare) const override;
  nlohmann::ordered_json to_json() const override;

 private:
  SplitBehavior behavior_ = SplitBehavior::kIsolated;
};

}  // namespace millrace

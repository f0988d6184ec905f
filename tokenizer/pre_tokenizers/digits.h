#pragma once

#include "millrace/tokenizer/pre_tokenizers/pre_tokenizer.h"

namespace millrace {

/// Sets numbers of all scripts (`\p{N}`) apart from what is around them: runs of them or, individually, each.
class DigitsPreTokenizer final : public PreTokenizer {
 public:
  /// Reads `{"type": "Digits", "individual_digits": …}`.
  explicit DigitsPreTokenizer(const JsonNode& node);

  void apply(WordedText& text, WordedText& spare) const override;
  nlohmann::ordered_json to_json() const override;

 private:
  bool individual_digits_;
};

}  // namespace millrace

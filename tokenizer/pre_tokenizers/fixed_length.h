#pragma once

#include "millrace/tokenizer/pre_tokenizers/pre_tokenizer.h"

namespace millrace {

/// Cuts words after each `length` characters.
class FixedLengthPreTokenizer final : public PreTokenizer {
 public:
  /// Reads `{"type": "FixedLength", "length": …}`; without `length` it is 5.
  explicit FixedLengthPreTokenizer(const JsonNode& node);

  void apply(WordedText& text, WordedText& spare) const override;
  nlohmann::ordered_json to_json() const override;

 private:
  size_t length_ = 5;  // above 0
};

}  // namespace millrace

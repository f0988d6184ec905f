#pragma once

#include "millrace/tokenizer/byte_level_options.h"
#include "millrace/tokenizer/pre_tokenizers/pre_tokenizer.h"

namespace millrace {

/// Puts for each byte the character that stands for it (`byte_characters`), after a space in front of each word that
/// does not begin with one, and a cut into the words of GPT-2 (`end_of_byte_level_word`), as the options say.
class ByteLevelPreTokenizer final : public PreTokenizer {
 public:
  explicit ByteLevelPreTokenizer(const JsonNode& node) : options_(ByteLevelOptions::read(node)) {}

  void apply(WordedText& text, WordedText& spare) const override;
  nlohmann::ordered_json to_json() const override;

 private:
  ByteLevelOptions options_;
};

}  // namespace millrace

#pragma once

#include <vector>

#include "millrace/tokenizer/pre_tokenizers/pre_tokenizer.h"

namespace millrace {

/// Several pre-tokenizers, each on the words of the one before.
class PreTokenizerSequence final : public PreTokenizer {
 public:
  /// Reads `{"type": "Sequence", "pretokenizers": […]}`.
  explicit PreTokenizerSequence(const JsonNode& node);

  void apply(WordedText& text, WordedText& spare) const override;
  nlohmann::ordered_json to_json() const override;
  bool needs_tracking() const override;

 private:
  std::vector<std::unique_ptr<const PreTokenizer>> pre_tokenizers_;
};

}  // namespace millrace

#pragma once

#include "millrace/tokenizer/pre_tokenizers/pre_tokenizer.h"
#include "millrace/tokenizer/pre_tokenizers/word_splitter.h"
#include "millrace/tokenizer/text_pattern.h"

namespace millrace {

/// Cuts words at the matches of a pattern or, inverted, at what is between them. GPT-4 and Llama 3 have their words
/// from one, in front of a ByteLevel without its own.
class SplitPreTokenizer final : public PreTokenizer {
 public:
  /// Reads `{"type": "Split", "pattern": {"String" or "Regex": …}, "behavior": …, "invert": …}`.
  explicit SplitPreTokenizer(const JsonNode& node);

  /// Throws `kInvalidArgument` when the search for an expression takes too many steps.
  void apply(WordedText& text, WordedText& spare) const override;
  nlohmann::ordered_json to_json() const override;

 private:
  TextPattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

}  // namespace millrace

#pragma once

#include "millrace/tokenizer/metaspace_options.h"
#include "millrace/tokenizer/pre_tokenizers/pre_tokenizer.h"

namespace millrace {

/// Makes spaces visible as U+2581, puts one in front, and begins a word at each.
class MetaspacePreTokenizer final : public PreTokenizer {
 public:
  explicit MetaspacePreTokenizer(const JsonNode& node) : options_(MetaspaceOptions::read(node)) {}

  void apply(WordedText& text, WordedText& spare) const override;
  nlohmann::ordered_json to_json() const override;
  bool needs_tracking() const override { return options_.prepend == MetaspaceOptions::Prepend::kFirst; }

 private:
  MetaspaceOptions options_;
};

}  // namespace millrace

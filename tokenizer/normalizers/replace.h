#pragma once

#include "millrace/tokenizer/normalizers/normalizer.h"
#include "millrace/tokenizer/text_pattern.h"

namespace millrace {

/// Puts `content`, as it is, in the place of every match of a pattern, from left to right.
class ReplaceNormalizer final : public Normalizer {
 public:
  /// Reads `{"type": "Replace", "pattern": {"String" or "Regex": …}, "content": …}`.
  explicit ReplaceNormalizer(const JsonNode& node);

  void apply(AlignedText& text, AlignedText& spare) const override;
  nlohmann::ordered_json to_json() const override;

 private:
  TextPattern pattern_;
  std::string content_;
};

}  // namespace millrace

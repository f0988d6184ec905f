#pragma once

#include "tokenizer/normalizers/normalizer.h"

namespace millrace {

/// Puts `content` in the place of every occurrence of a string, from left to right.
class ReplaceNormalizer final : public Normalizer {
 public:
  /// Reads `{"type": "Replace", "pattern": {"String": …}, "content": …}`.
  explicit ReplaceNormalizer(const JsonNode& node);

  void apply(AlignedText& text, AlignedText& spare) const override;

 private:
  std::string pattern_;
  std::string content_;
};

}  // namespace millrace

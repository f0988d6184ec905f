#pragma once

#include "millrace/tokenizer/normalizers/normalizer.h"

namespace millrace {

/// Makes every character a small letter by itself (Unicode's Lowercase_Mapping without context: a final sigma is one
/// like any other).
class LowercaseNormalizer final : public Normalizer {
 public:
  LowercaseNormalizer() = default;
  /// Reads `{"type": "Lowercase"}`.
  explicit LowercaseNormalizer(const JsonNode& node) { node.require_members_among({"type"}); }

  void apply(AlignedText& text, AlignedText& spare) const override;
  nlohmann::ordered_json to_json() const override;
};

}  // namespace millrace

#pragma once

#include "millrace/tokenizer/normalizers/normalizer.h"

namespace millrace {

/// Puts for each byte the character that stands for it (`byte_characters`).
class ByteLevelNormalizer final : public Normalizer {
 public:
  /// Reads `{"type": "ByteLevel"}`.
  explicit ByteLevelNormalizer(const JsonNode& node) { node.require_members_among({"type"}); }

  void apply(AlignedText& text, AlignedText& spare) const override;
  nlohmann::ordered_json to_json() const override;
};

}  // namespace millrace

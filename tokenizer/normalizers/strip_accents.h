#pragma once

#include "millrace/tokenizer/normalizers/normalizer.h"

namespace millrace {

/// Drops marks (those of Unicode 9, as the Python package's table has them). Accents of composed characters stay: NFD
/// or NFKD comes before it.
class StripAccentsNormalizer final : public Normalizer {
 public:
  /// Reads `{"type": "StripAccents"}`.
  explicit StripAccentsNormalizer(const JsonNode& node) { node.require_members_among({"type"}); }

  void apply(AlignedText& text, AlignedText& spare) const override;
  nlohmann::ordered_json to_json() const override;
};

}  // namespace millrace

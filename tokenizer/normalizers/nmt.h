#pragma once

#include "millrace/tokenizer/normalizers/normalizer.h"

namespace millrace {

/// What sentencepiece's `nmt_` rules do to white space and controls: drops the controls of ASCII and two others, and
/// makes spaces of tabs, line ends, characters of no width and U+2581.
class NmtNormalizer final : public Normalizer {
 public:
  /// Reads `{"type": "Nmt"}`.
  explicit NmtNormalizer(const JsonNode& node) { node.require_members_among({"type"}); }

  void apply(AlignedText& text, AlignedText& spare) const override;
  nlohmann::ordered_json to_json() const override;
};

}  // namespace millrace

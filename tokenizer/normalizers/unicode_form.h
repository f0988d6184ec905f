#pragma once

#include <vector>

#include "millrace/tokenizer/normalizers/normalizer.h"

namespace millrace {

/// Brings a text into one of the four normal forms of Unicode (UAX #15): canonical or compatible characters, with marks
/// apart or composed.
class UnicodeFormNormalizer final : public Normalizer {
 public:
  UnicodeFormNormalizer(bool compatible, bool composed) : compatible_(compatible), composed_(composed) {}
  /// Reads `{"type": "NFC"}`, `NFD`, `NFKC` or `NFKD`.
  explicit UnicodeFormNormalizer(const JsonNode& node);

  void apply(AlignedText& text, AlignedText& spare) const override;
  nlohmann::ordered_json to_json() const override;

 private:
  bool is_normalized(std::string_view text) const;
  void decompose(std::string_view text, std::vector<CharacterChange>& changes) const;

  bool compatible_ = false;
  bool composed_ = false;
};

}  // namespace millrace

#pragma once

#include <array>
#include <vector>

#include "millrace/tokenizer/normalizers/character_map.h"
#include "millrace/tokenizer/normalizers/normalizer.h"

namespace millrace {

/// The normalization of a sentencepiece model. A grapheme (what a reader sees as one character, UAX #29) below six
/// bytes is looked up as a whole, then each of its characters by itself, as the Python package does.
class PrecompiledNormalizer final : public Normalizer {
 public:
  /// Reads `{"type": "Precompiled", "precompiled_charsmap": …}`, the table in base64.
  explicit PrecompiledNormalizer(const JsonNode& node);

  void apply(AlignedText& text, AlignedText& spare) const override;
  nlohmann::ordered_json to_json() const override;

 private:
  // Appends what becomes of a grapheme; returns whether it changes.
  bool change_grapheme(std::string_view grapheme, std::vector<CharacterChange>& changes) const;

  CharacterMap map_;
  std::array<bool, 128> ascii_unchanged_{};
};

}  // namespace millrace

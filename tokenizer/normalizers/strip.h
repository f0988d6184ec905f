#pragma once

#include "millrace/tokenizer/normalizers/normalizer.h"

namespace millrace {

/// Drops the white space at the ends of a text.
class StripNormalizer final : public Normalizer {
 public:
  /// Reads `{"type": "Strip", "strip_left": …, "strip_right": …}`.
  explicit StripNormalizer(const JsonNode& node);

  void apply(AlignedText& text, AlignedText& spare) const override;
  nlohmann::ordered_json to_json() const override;

 private:
  bool left_;
  bool right_;
};

}  // namespace millrace

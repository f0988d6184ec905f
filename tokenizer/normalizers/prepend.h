#pragma once

#include "millrace/tokenizer/normalizers/normalizer.h"

namespace millrace {

/// Puts a string in front of each text that is not empty. It stands where the text's first character does.
class PrependNormalizer final : public Normalizer {
 public:
  /// Reads `{"type": "Prepend", "prepend": …}`.
  explicit PrependNormalizer(const JsonNode& node);

  void apply(AlignedText& text, AlignedText& spare) const override;
  nlohmann::ordered_json to_json() const override;

 private:
  std::string prepended_;
};

}  // namespace millrace

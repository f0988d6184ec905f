#pragma once

#include <vector>

#include "millrace/tokenizer/normalizers/normalizer.h"

namespace millrace {

/// Several normalizers, one after the other.
class NormalizerSequence final : public Normalizer {
 public:
  /// Reads `{"type": "Sequence", "normalizers": […]}`.
  explicit NormalizerSequence(const JsonNode& node);

  void apply(AlignedText& text, AlignedText& spare) const override;
  nlohmann::ordered_json to_json() const override;

 private:
  std::vector<std::unique_ptr<const Normalizer>> normalizers_;
};

}  // namespace millrace

#pragma once

#include "millrace/tokenizer/decoders/decoder.h"

namespace millrace {

/// Puts a space in the place of the suffix of words, and nothing in the last piece.
class BpeDecoder final : public Decoder {
 public:
  /// Reads `{"type": "BPEDecoder", "suffix": …}`.
  explicit BpeDecoder(const JsonNode& node);

  void apply(std::vector<std::string>& pieces) const override;
  nlohmann::ordered_json to_json() const override;

 private:
  std::string suffix_;
};

}  // namespace millrace

#pragma once

#include "millrace/tokenizer/decoders/decoder.h"

namespace millrace {

/// Joins pieces that continue words to those before them, without the prefix, and puts a space in front of all others
/// but the first; with `cleanup` takes spaces out of each piece then (`without_spaces_of_tokens`).
class WordPieceDecoder final : public Decoder {
 public:
  /// Reads `{"type": "WordPiece", "prefix": …, "cleanup": …}`.
  explicit WordPieceDecoder(const JsonNode& node);

  void apply(std::vector<std::string>& pieces) const override;
  nlohmann::ordered_json to_json() const override;

 private:
  std::string prefix_;
  bool cleanup_;
};

}  // namespace millrace

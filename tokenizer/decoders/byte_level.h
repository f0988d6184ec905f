#pragma once

#include "millrace/tokenizer/byte_level_options.h"
#include "millrace/tokenizer/decoders/decoder.h"

namespace millrace {

/// Turns the characters that stand for bytes back into those; a token with any other character stays as it is. What is
/// then not UTF-8 becomes U+FFFD.
class ByteLevelDecoder final : public Decoder {
 public:
  explicit ByteLevelDecoder(const JsonNode& node) : options_(ByteLevelOptions::read(node)) {}

  void apply(std::vector<std::string>& pieces) const override;
  nlohmann::ordered_json to_json() const override;

 private:
  ByteLevelOptions options_;
};

}  // namespace millrace

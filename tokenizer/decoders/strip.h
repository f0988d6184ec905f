#pragma once

#include "millrace/tokenizer/decoders/decoder.h"

namespace millrace {

/// Drops a character from the ends of each piece, up to a number of times at either.
class StripDecoder final : public Decoder {
 public:
  /// Reads `{"type": "Strip", "content": …, "start": …, "stop": …}`.
  explicit StripDecoder(const JsonNode& node);

  void apply(std::vector<std::string>& pieces) const override;
  nlohmann::ordered_json to_json() const override;

 private:
  std::string content_;  // one character
  size_t start_;
  size_t stop_;
};

}  // namespace millrace

#pragma once

#include "millrace/tokenizer/decoders/decoder.h"

namespace millrace {

/// Makes bytes of tokens such as `<0xE2>`; a run of them that is not UTF-8 becomes U+FFFD once for each.
class ByteFallbackDecoder final : public Decoder {
 public:
  /// Reads `{"type": "ByteFallback"}`.
  explicit ByteFallbackDecoder(const JsonNode& node) { node.require_members_among({"type"}); }

  void apply(std::vector<std::string>& pieces) const override;
  nlohmann::ordered_json to_json() const override;
};

}  // namespace millrace

#pragma once

#include "millrace/tokenizer/decoders/decoder.h"

namespace millrace {

/// Makes one piece of all.
class FuseDecoder final : public Decoder {
 public:
  /// Reads `{"type": "Fuse"}`.
  explicit FuseDecoder(const JsonNode& node) { node.require_members_among({"type"}); }

  void apply(std::vector<std::string>& pieces) const override;
  nlohmann::ordered_json to_json() const override;
};

}  // namespace millrace

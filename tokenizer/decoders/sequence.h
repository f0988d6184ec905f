#pragma once

#include "millrace/tokenizer/decoders/decoder.h"

namespace millrace {

/// Several decoders, one after the other.
class DecoderSequence final : public Decoder {
 public:
  /// Reads `{"type": "Sequence", "decoders": […]}`.
  explicit DecoderSequence(const JsonNode& node);

  void apply(std::vector<std::string>& pieces) const override;
  nlohmann::ordered_json to_json() const override;

 private:
  std::vector<std::unique_ptr<const Decoder>> decoders_;
};

}  // namespace millrace

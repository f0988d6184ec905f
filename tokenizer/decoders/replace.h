#pragma once

#include "millrace/tokenizer/decoders/decoder.h"
#include "millrace/tokenizer/text_pattern.h"

namespace millrace {

/// Puts `content`, as it is, in the place of every match of a pattern in a piece.
class ReplaceDecoder final : public Decoder {
 public:
  /// Reads `{"type": "Replace", "pattern": {"String" or "Regex": …}, "content": …}`.
  explicit ReplaceDecoder(const JsonNode& node);

  void apply(std::vector<std::string>& pieces) const override;
  nlohmann::ordered_json to_json() const override;

 private:
  TextPattern pattern_;
  std::string content_;
};

}  // namespace millrace

#pragma once

#include "millrace/tokenizer/decoders/decoder.h"

namespace millrace {

/// What the outputs of a model of speech say (connectionist temporal classification, Graves 2006): of equal pieces in a
/// row one stays, and those are dropped of which without the padding token nothing is left. With `cleanup` the
/// delimiter of words is a space, and spaces are taken out of each piece before (`without_spaces_of_tokens`).
class CtcDecoder final : public Decoder {
 public:
  /// Reads `{"type": "CTC", "pad_token": …, "word_delimiter_token": …, "cleanup": …}`.
  explicit CtcDecoder(const JsonNode& node);

  void apply(std::vector<std::string>& pieces) const override;
  nlohmann::ordered_json to_json() const override;

 private:
  std::string pad_token_;
  std::string word_delimiter_token_;
  bool cleanup_;
};

}  // namespace millrace

#pragma once

#include "millrace/tokenizer/decoders/decoder.h"
#include "millrace/tokenizer/metaspace_options.h"

namespace millrace {

/// Turns U+2581 back into spaces; those of the first token are dropped unless nothing is ever prepended.
class MetaspaceDecoder final : public Decoder {
 public:
  explicit MetaspaceDecoder(const JsonNode& node) : options_(MetaspaceOptions::read(node)) {}

  void apply(std::vector<std::string>& pieces) const override;
  nlohmann::ordered_json to_json() const override;

 private:
  MetaspaceOptions options_;
};

}  // namespace millrace

#pragma once

#include "millrace/tokenizer/byte_level_options.h"
#include "millrace/tokenizer/post_processors/post_processor.h"

namespace millrace {

/// Trims the offsets of byte-level tokens, or does nothing, as its options say.
class ByteLevelPostProcessor final : public PostProcessor {
 public:
  explicit ByteLevelPostProcessor(const JsonNode& node) : options_(ByteLevelOptions::read(node)) {}

  std::vector<OffsetTrimming> trimmings() const override;
  nlohmann::ordered_json to_json() const override;

 private:
  ByteLevelOptions options_;
};

}  // namespace millrace

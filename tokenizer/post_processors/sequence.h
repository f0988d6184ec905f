#pragma once

#include <vector>

#include "millrace/tokenizer/post_processors/post_processor.h"

namespace millrace {

/// Several post-processors, one after the other. At most one of them may place the texts.
class PostProcessorSequence final : public PostProcessor {
 public:
  /// Reads `{"type": "Sequence", "processors": […]}`.
  explicit PostProcessorSequence(const JsonNode& node);

  const std::vector<TemplatePiece>* single() const override;
  const std::vector<TemplatePiece>* pair() const override;
  JoinedSpecialTokens joins_special_tokens() const override;
  std::vector<OffsetTrimming> trimmings() const override;
  nlohmann::ordered_json to_json() const override;

 private:
  std::vector<std::unique_ptr<const PostProcessor>> processors_;
  const PostProcessor* places_texts_ = nullptr;
};

}  // namespace millrace

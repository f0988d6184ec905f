#pragma once

#include "millrace/tokenizer/post_processors/post_processor.h"

namespace millrace {

/// `<s> A </s>` and `<s> A </s> </s> B </s>` (Liu 2019, https://arxiv.org/abs/1907.11692), all with type 0, and trimmed
/// offsets.
class RobertaProcessing final : public PostProcessor {
 public:
  /// Reads `{"type": "RobertaProcessing", "sep": [token, id], "cls": [token, id], "trim_offsets": …,
  /// "add_prefix_space": …}`.
  explicit RobertaProcessing(const JsonNode& node);

  const std::vector<TemplatePiece>* single() const override { return &single_; }
  const std::vector<TemplatePiece>* pair() const override { return &pair_; }
  JoinedSpecialTokens joins_special_tokens() const override {
    return {.before_first_text = true, .before_second_text = true};
  }
  std::vector<OffsetTrimming> trimmings() const override;
  nlohmann::ordered_json to_json() const override;

 private:
  std::vector<TemplatePiece> single_;  // cls A sep
  std::vector<TemplatePiece> pair_;
  bool trim_offsets_;
  bool add_prefix_space_;
};

}  // namespace millrace

#pragma once

#include "millrace/tokenizer/post_processors/post_processor.h"

namespace millrace {

/// `[CLS] A [SEP]` and `[CLS] A [SEP] B [SEP]` (Devlin 2018, https://arxiv.org/abs/1810.04805), from B on with type 1.
class BertProcessing final : public PostProcessor {
 public:
  /// Reads `{"type": "BertProcessing", "sep": [token, id], "cls": [token, id]}`.
  explicit BertProcessing(const JsonNode& node);

  const std::vector<TemplatePiece>* single() const override { return &single_; }
  const std::vector<TemplatePiece>* pair() const override { return &pair_; }
  JoinedSpecialTokens joins_special_tokens() const override { return {.before_first_text = true}; }
  nlohmann::ordered_json to_json() const override;

 private:
  std::vector<TemplatePiece> single_;  // cls A sep
  std::vector<TemplatePiece> pair_;
};

}  // namespace millrace

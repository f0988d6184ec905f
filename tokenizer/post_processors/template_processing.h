#pragma once

#include "millrace/tokenizer/post_processors/post_processor.h"

namespace millrace {

/// Special tokens around the texts as a template says, such as `[CLS] A [SEP] B [SEP]`.
class TemplateProcessing final : public PostProcessor {
 public:
  /// Reads `{"type": "TemplateProcessing", "single": […], "pair": […], "special_tokens": {…}}`.
  explicit TemplateProcessing(const JsonNode& node);

  const std::vector<TemplatePiece>* single() const override { return &single_; }
  const std::vector<TemplatePiece>* pair() const override { return &pair_; }
  nlohmann::ordered_json to_json() const override;

 private:
  std::string json_;  // as it was read: a name of a special token may stand for several
  std::vector<TemplatePiece> single_;
  std::vector<TemplatePiece> pair_;
};

}  // namespace millrace

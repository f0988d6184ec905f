#pragma once

#include "millrace/tokenizer/normalizers/lowercase.h"
#include "millrace/tokenizer/normalizers/normalizer.h"
#include "millrace/tokenizer/normalizers/unicode_form.h"

namespace millrace {

/// What BERT does to a text (Devlin 2018, https://arxiv.org/abs/1810.04805), each step as its option says: drops
/// controls and makes a space of all white space; puts spaces around the characters of Chinese, each of which is a word
/// then; drops accents; makes capital letters small.
class BertNormalizer final : public Normalizer {
 public:
  /// Reads `{"type": "BertNormalizer", "clean_text": …, "handle_chinese_chars": …, "strip_accents": …, "lowercase":
  /// …}`. Without `strip_accents`, or with null, accents are dropped where letters become small.
  explicit BertNormalizer(const JsonNode& node);

  void apply(AlignedText& text, AlignedText& spare) const override;
  nlohmann::ordered_json to_json() const override;

 private:
  bool clean_text_;
  bool handle_chinese_chars_;
  std::optional<bool> strip_accents_;
  bool lowercase_;
  UnicodeFormNormalizer decomposition_{/*compatible=*/false, /*composed=*/false};
  LowercaseNormalizer lowercase_normalizer_;
};

}  // namespace millrace

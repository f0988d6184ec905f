#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/tokenizer/special_tokens.h"
#include "millrace/tokenizer/tokenizer.h"
#include "millrace/trainer/models/pretrained_options.h"
#include "millrace/trainer/models/roberta.h"
#include "millrace/trainer/tensor/arena.h"

namespace millrace {

/// One proposal for a mask, named as transformers' fill-mask pipeline does.
struct MaskCandidate {
  double score = 0;       ///< probability
  int32_t token = 0;      ///< id
  std::string token_str;  ///< the token as text
  std::string sequence;   ///< the whole text with it
};

/// What a model says about one text.
struct FilledText {
  std::vector<int32_t> ids;                       ///< of the text, with special tokens around it
  std::vector<std::vector<MaskCandidate>> masks;  ///< for each mask the best candidates, best first
  std::vector<float> logits;                      ///< [ids, vocabulary]
};

/// A trained masked language model and its tokenizer, read from a directory in Hugging Face's layout.
///
///     MaskFiller filler("mlm/model");
///     for (const MaskCandidate& candidate : filler.fill("A kind of [MASK].", 5).masks[0]) ...
///
/// One thread at a time.
class MaskFiller {
 public:
  /// Throws as loading the model's files, the tokenizer and its special tokens does, and `kInvalidArgument` when the
  /// tokenizer has no mask, more tokens than the model, or another padding.
  explicit MaskFiller(const std::string& directory, const PretrainedOptions& options = {});

  /// Throws `kInvalidArgument` for a text that is longer than the model takes, `kParse` for one that is not UTF-8.
  FilledText fill(std::string_view text, int64_t num_candidates);

  /// What stands for a mask in a text: `[MASK]`, `<mask>`.
  const std::string& mask() const { return *special_.mask; }
  int64_t vocab_size() const { return model_.config().vocab_size; }

 private:
  Tokenizer tokenizer_;
  SpecialTokens special_;
  RobertaForMaskedLm model_;
  FlatBuffer weights_;
  Arena arena_;
  int32_t mask_token_ = 0;
};

}  // namespace millrace

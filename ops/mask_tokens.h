#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/mask_row.h"
#include "ops/operator.h"

namespace millrace {

struct MaskTokensOptions {
  int64_t vocab_size = 0;                    ///< random ids are below it; at least 1. No default
  int64_t mask_token = 0;                    ///< the id of `[MASK]`. No default
  std::vector<int64_t> special_tokens = {};  ///< ids that are never chosen, such as `[CLS]` and `[SEP]`. Default: none
  double probability = 0.15;                 ///< that a position is chosen. Default: 0.15
  double mask_share = 0.8;                   ///< of the chosen: become `mask_token`. Default: 0.8
  double random_share = 0.1;                 ///< of the chosen: become a uniform id; the rest stays. Default: 0.1
  uint64_t seed = 0;                         ///< another seed, other masks. Default: 0
  std::string input_ids = "input_ids";       ///< feature with the ids. Default: input_ids
  std::string attention_mask =
      "attention_mask";           ///< feature that is 0 where there is no token; empty: none. Default: attention_mask
  std::string labels = "labels";  ///< feature that is added. Default: labels
};

/// Masks tokens for a masked language model (Devlin et al., "BERT", 2018, section 3.1): a position that is not special
/// is chosen with `probability`; of the chosen 80% become the mask token, 10% a uniform id, 10% stay. `labels` holds
/// the original id where chosen and -100 elsewhere.
///
///     input_ids int32 [128,512]  ->  input_ids int32 [128,512], labels int32 [128,512]
///
/// Works on rows [length] and on batches [n,length] alike, with the same result: every choice is a function of seed,
/// epoch, the row's ordinal and the position. Ids are int32 or int64, the mask is int64.
class MaskTokensOperator final : public MapOperator {
 public:
  /// `occurrence`: how many mask_tokens stand before this one. Each draws its own masks, with the same seed too.
  MaskTokensOperator(const SchemaPtr& input, MaskTokensOptions options, uint64_t occurrence = 0);
  std::string_view name() const override { return "mask_tokens"; }
  std::string arguments() const override;
  Block apply(Block block, BufferPool& pool) const override;

 private:
  template <typename Id>
  std::vector<ElementError> mask_rows(const Block& block, Column& ids, Column& labels) const;

  MaskTokensOptions options_;
  uint64_t occurrence_;
  int input_column_ = 0;
  int attention_column_ = -1;
  std::vector<int32_t> special_tokens_;
  MaskRule rule_;
};

}  // namespace millrace

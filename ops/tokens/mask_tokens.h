#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "millrace/ops/format_arguments.h"
#include "millrace/ops/operator.h"
#include "millrace/ops/tokens/mask_choice.h"
#include "millrace/ops/tokens/mask_row.h"

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
  /// Whole words: feature of the shape of the ids, int32 or int64, that is not 0 where a word starts. Default: none
  std::string word_starts = "";
  /// The same by id, an entry for each of the vocabulary: whether it starts a word. Default: none
  std::vector<bool> starts_word = {};
  /// Spans of tokens, or of whole words, in the place of single ones. Default: none
  std::optional<MaskSpans> spans = {};

  static constexpr auto fields() {
    using A = MaskTokensOptions;
    return describe<A>("MaskTokensOptions", field::required<&A::vocab_size>, field::required<&A::mask_token>,
                       field::stream<&A::special_tokens>, field::stream<&A::probability>, field::stream<&A::mask_share>,
                       field::stream<&A::random_share>, field::stream<&A::seed>, field::stream<&A::input_ids>,
                       field::stream<&A::attention_mask>, field::stream<&A::labels>, field::stream<&A::word_starts>,
                       field::stream<&A::starts_word>, field::stream<&A::spans>);
  }
};

/// What `options` say of single positions; `special_tokens`, theirs, must outlive it.
[[nodiscard]] MaskRule mask_rule(const MaskTokensOptions& options, std::span<const int32_t> special_tokens);

/// Masks tokens for a masked language model (Devlin et al., "BERT", 2018, section 3.1): a position that is not special
/// is chosen with `probability`; of the chosen 80% become the mask token, 10% a uniform id, 10% stay. `labels` holds
/// the original id where chosen and -100 elsewhere.
///
/// With `word_starts` or `starts_word` whole words are chosen, each with `probability`, and all their tokens with them;
/// what becomes of a token is drawn for each by itself (BERT's whole word masking). A word goes up to the next start, a
/// special token or the end; what follows a special token starts a word. With `spans`, runs of tokens (or words) are
/// chosen until they hold the share `probability` of those that may be chosen in the row, at most 1/2; what becomes of
/// their tokens is drawn once for a span (SpanBERT, Joshi et al. 2019, section 3.1). A span goes on after a special
/// token that it meets. Differences on purpose: words are chosen each by itself, not until a number is reached; spans
/// do not touch each other.
///
///     input_ids int32 [128,512]  ->  input_ids int32 [128,512], labels int32 [128,512]
///
/// Works on rows [length] and on batches [n,length] alike, with the same result: every choice is a function of seed,
/// epoch, the row's ordinal and the position. The rows of elements that are matrices and no batches draw by the
/// element's ordinal, their place in it and the position. Ids are int32 or int64, the mask is int64.
class MaskTokensOperator final : public MapOperator {
 public:
  /// `occurrence`: how many mask_tokens stand before this one. Each draws its own masks, with the same seed too.
  MaskTokensOperator(const SchemaPtr& input, MaskTokensOptions options, uint64_t occurrence = 0);
  std::string_view name() const override { return "mask_tokens"; }
  OperatorTraits traits() const override { return {.is_nonblocking = true}; }
  Block apply(Block block, BufferPool& pool) const override;

 private:
  // One row of a block: what it is read from and written to.
  template <typename Id>
  struct Row;
  // The memory that rows need one after the other.
  template <typename Id>
  struct Scratch;

  template <typename Id>
  std::vector<ElementError> mask_rows(const Block& block, Column& ids, Column& labels, BufferPool& pool) const;
  // Words and spans.
  template <typename Id>
  void mask_choice(const CounterRng& rng, const Row<Id>& row, Scratch<Id>& scratch) const;

  MaskTokensOptions options_;
  uint64_t occurrence_;
  int input_column_ = 0;
  int attention_column_ = -1;
  int word_starts_column_ = -1;
  std::vector<int32_t> special_tokens_;
  MaskRule rule_;
  std::optional<MaskChoice> choice_;  // of words and spans
};

/// What `Dataset::mask_tokens` is called with.
struct MaskTokensArguments {
  MaskTokensOptions options = {};

  static constexpr auto fields() {
    using A = MaskTokensArguments;
    return describe<A>("mask_tokens", field::inlined<&A::options>);
  }
};

}  // namespace millrace

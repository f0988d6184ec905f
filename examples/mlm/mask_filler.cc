#include "examples/mlm/mask_filler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/models/roberta_pretrained.h"
#include "millrace/trainer/tensor/tape.h"

namespace millrace {
namespace {

// Ids by descending logit, equal ones by ascending id.
std::vector<int32_t> best_ids(std::span<const float> logits, int64_t count) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto middle = ids.begin() + std::min<ptrdiff_t>(count, std::ssize(ids));
  std::partial_sort(ids.begin(), middle, ids.end(), [&](int32_t a, int32_t b) {
    const float of_a = logits[static_cast<size_t>(a)];
    const float of_b = logits[static_cast<size_t>(b)];
    return of_a != of_b ? of_a > of_b : a < b;
  });
  ids.erase(middle, ids.end());
  return ids;
}

double log_sum_exp(std::span<const float> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

}  // namespace

MaskFiller::MaskFiller(const std::string& directory, const PretrainedOptions& options)
    : tokenizer_(Tokenizer::load(directory + "/tokenizer.json")),
      special_(SpecialTokens::find(tokenizer_, directory + "/tokenizer.json")),
      model_(load_roberta_config(directory, options)),
      weights_(load_roberta_weights(directory, model_)) {
  mask_token_ = special_.id_of(tokenizer_, "mask_token");
  if (const int32_t pad = model_.config().pad_token_id; special_.pad && tokenizer_.id_of(*special_.pad) != pad) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("in {} the tokenizer's pad_token '{}' is {}, the model's pad_token_id {}",
                                     directory, *special_.pad, *tokenizer_.id_of(*special_.pad), pad));
  }
  if (tokenizer_.size() > vocab_size()) {
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("the tokenizer in {} has {} tokens, the model {}",
                                                                  directory, tokenizer_.size(), vocab_size()));
  }
}

FilledText MaskFiller::fill(std::string_view text, int64_t num_candidates) {
  FilledText filled;
  tokenizer_.encode_ids(text, true, filled.ids);
  const auto length = std::ssize(filled.ids);
  const int64_t longest = model_.config().max_position_embeddings - model_.config().pad_token_id - 1;
  if (length > longest) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("a text of {} tokens; the model takes {}", length, longest));
  }
  Tape<float> tape(arena_);
  tape.begin(model_.layout(), weights_.data());
  const Tensor<float> hidden = model_.encode(tape, {.rows = 1, .length = length, .ids = filled.ids}).back();
  const Tensor<float> logits = model_.logits(tape, hidden);
  filled.logits.assign(logits.values, logits.values + length * vocab_size());

  const auto num_masks = std::count(filled.ids.begin(), filled.ids.end(), mask_token_);
  for (size_t position = 0; position < filled.ids.size(); ++position) {
    if (filled.ids[position] != mask_token_) continue;
    const auto width = static_cast<size_t>(vocab_size());
    const auto row = std::span<const float>(filled.logits).subspan(position * width, width);
    const double denominator = log_sum_exp(row);
    std::vector<MaskCandidate>& candidates = filled.masks.emplace_back();
    for (int32_t id : best_ids(row, num_candidates)) {
      std::vector<int32_t> ids = filled.ids;
      ids[position] = id;
      std::erase(ids, model_.config().pad_token_id);  // transformers shows no padding, not even as a proposal
      candidates.push_back({.score = std::exp(row[static_cast<size_t>(id)] - denominator),
                            .token = id,
                            .token_str = tokenizer_.decode({&id, 1}, false),
                            // Beside other masks special tokens are shown, as transformers does.
                            .sequence = tokenizer_.decode(ids, num_masks == 1)});
    }
  }
  return filled;
}

}  // namespace millrace

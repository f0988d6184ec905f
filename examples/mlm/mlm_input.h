#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "examples/mlm/mlm_shards.h"
#include "examples/mlm/train_mlm_options.h"
#include "millrace/tokenizer/tokenizer.h"
#include "millrace/trainer/run/training_run.h"

namespace millrace {

/// What `train_mlm` trains and evaluates on: the shards that prepare_tfrecord_shards wrote with their tokenizer or,
/// with `--synthetic`, rows of random tokens.
class MlmInput {
 public:
  /// Reads tokenizer and shard names. Throws as `MlmShards::find` and reading the tokenizer do, MissingData when there
  /// is none; `kInvalidArgument` when the vocabulary is smaller than the tokenizer's, when the shards' statistics say
  /// another length or tokenizer, or when an epoch has not one global batch.
  explicit MlmInput(const TrainMlmOptions& options);

  int64_t vocab_size() const { return vocab_size_; }
  int32_t pad_token() const { return pad_token_; }
  int32_t cls_token() const { return cls_token_; }
  int32_t sep_token() const { return sep_token_; }
  /// Nothing when nobody counted it.
  std::optional<double> unigram_entropy() const;
  /// Batches of `input_ids` and `labels`, int32 [rows, max_length], and `attention_mask`, int64. To train on, forever:
  /// shards, rows and masks are drawn anew in each epoch, which ends with its last whole batch. To evaluate on: all
  /// validation rows in order, with the same masks each time. It must not outlive this.
  RunData data() const;

 private:
  void find_tokens();
  void check_rows() const;
  void check_statistics() const;
  std::string describe() const;
  Dataset rows_of(const Shards& shards, TfrecordOptions reading) const;
  Dataset synthetic_rows() const;
  Dataset masked(const Dataset& batches) const;
  Dataset training_batches() const;

  const TrainMlmOptions options_;
  std::optional<MlmShards> shards_;     // none: synthetic
  std::optional<Tokenizer> tokenizer_;  // none: synthetic
  int64_t vocab_size_;
  int32_t mask_token_ = 4;
  int32_t pad_token_ = 3;
  int32_t cls_token_ = 0;
  int32_t sep_token_ = 1;
};

}  // namespace millrace

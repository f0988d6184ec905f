#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "examples/mlm/mlm_data.h"
#include "examples/mlm/train_mlm_options.h"
#include "millrace/command_line/skipped_log.h"
#include "millrace/tokenizer/tokenizer.h"
#include "millrace/trainer/pipeline_source.h"

namespace millrace {

/// What `train_mlm` trains and evaluates on: shards with their tokenizer or, with `--synthetic`, rows of random tokens.
class MlmInput {
 public:
  /// Reads tokenizer and shard names. Throws as `MlmShards::find` and reading the tokenizer do; `kInvalidArgument` when
  /// the vocabulary is smaller than the tokenizer's, when the shards' statistics say another length or tokenizer, or
  /// when an epoch has not one global batch.
  explicit MlmInput(const TrainMlmOptions& options);

  int64_t vocab_size() const { return data_.vocab_size; }
  int32_t pad_token() const { return pad_token_; }
  int32_t cls_token() const { return cls_token_; }
  int32_t sep_token() const { return sep_token_; }
  /// What a training that goes on must have in common with the one that it goes on from, in words.
  std::string describe() const;
  /// Nothing when nobody counted it.
  std::optional<double> unigram_entropy() const;
  /// Starts the batches to evaluate on; null without validation rows.
  std::function<std::unique_ptr<BatchSource>()> evaluation() const;

  /// Starts the training batches, at the place of a state. What is left out of damaged shards is listed in the file
  /// `skipped_list` (SkippedLog). The source lives as long as this.
  BatchSource& start(const std::optional<PipelineState>& state, const std::string& skipped_list);
  /// What the training batches were made without so far.
  SkipReport skipped() const { return batches_ ? batches_->pipeline().skipped() : SkipReport(); }

 private:
  void read_files();
  void check_statistics(const Tokenizer& tokenizer) const;
  Dataset training_batches() const;

  const TrainMlmOptions options_;
  std::optional<MlmShards> shards_;  // none: synthetic
  MlmDataOptions data_;
  int32_t pad_token_ = 3;
  int32_t cls_token_ = 0;
  int32_t sep_token_ = 1;
  std::optional<SkippedLog> skipped_log_;
  std::optional<PipelineSource> batches_;
};

}  // namespace millrace

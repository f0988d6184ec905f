#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "millrace/trainer/model.h"
#include "millrace/trainer/models/roberta_encoder.h"

namespace millrace {

/// RoBERTa for masked language modelling (arXiv 1907.11692): embeddings, transformer encoder, LM head whose output
/// matrix is the word embedding. Weights have the names and shapes of Hugging Face's `RobertaForMaskedLM`.
///
///     RobertaForMaskedLm model({.vocab_size = 10048, .hidden_size = 256, .num_hidden_layers = 4,
///                               .num_attention_heads = 4, .intermediate_size = 1024});
///     Trainer trainer(model, ...);
///
/// Batches have `input_ids` and `labels`, int32 `[rows, length]`, and `attention_mask`, int64 of that shape. A label of
/// -100 means none; the weight of a step is its number of labels, and the head runs on labelled positions only.
///
/// Dropout is keyed by seed, step and row in the global batch. Immutable, any thread; a checkpoint holds the weights.
class RobertaForMaskedLm final : public Model {
 public:
  /// `bucket_bytes` as in `ParameterLayout::finish`. Throws `kInvalidArgument` for a config that cannot work.
  explicit RobertaForMaskedLm(RobertaConfig config, int64_t bucket_bytes = int64_t{1} << 20);

  const RobertaConfig& config() const { return encoder_.config(); }
  const RobertaEncoder& encoder() const { return encoder_; }
  const ParameterLayout& layout() const override { return layout_; }
  std::string describe() const override;
  /// Normal with `initializer_range` for matrices, except padding's entries, which are 0 as are biases; gammas are 1.
  void initialize(std::span<float> weights, uint64_t seed) const override;
  std::unique_ptr<Workspace> make_workspace() const override;
  StepResult train_step(const BatchView& rows, const float* weights, ReplicaContext& context) const override;
  StepResult evaluate(const BatchView& rows, const float* weights, Workspace& workspace) const override;
  /// Column `ids`, int32 `[rows, length]`: the most likely token where there is a label, -100 elsewhere.
  Predictions predict(const BatchView& rows, const float* weights, Workspace& workspace) const override;

  using DropoutKey = RobertaEncoder::DropoutKey;
  /// As `RobertaEncoder::encode`.
  template <typename T>
  std::vector<Tensor<T>> encode(Tape<T>& tape, const RobertaInput& input, const DropoutKey* dropout = nullptr) const {
    return encoder_.encode(tape, input, dropout);
  }
  /// As `RobertaEncoder::encode_tokens`.
  template <typename T>
  Tensor<T> encode_tokens(Tape<T>& tape, const RobertaInput& input, std::span<const int32_t> tokens,
                          const DropoutKey* dropout = nullptr) const {
    return encoder_.encode_tokens(tape, input, tokens, dropout);
  }
  /// The LM head: logits `[rows, vocab_size]` of last hidden states `[rows, hidden_size]`.
  template <typename T>
  Tensor<T> logits(Tape<T>& tape, const Tensor<T>& hidden) const;

 private:
  ParameterLayout layout_;
  RobertaEncoder encoder_;
  int dense_weight_ = 0;
  int dense_bias_ = 0;
  int norm_weight_ = 0;
  int norm_bias_ = 0;
  int output_bias_ = 0;
};

}  // namespace millrace

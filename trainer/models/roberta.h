#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "millrace/trainer/models/roberta_encoder.h"
#include "millrace/trainer/tape_model.h"

namespace millrace {

/// RoBERTa for masked language modelling (arXiv 1907.11692): embeddings, transformer encoder, LM head whose output
/// matrix is the word embedding. Weights have the names and shapes of Hugging Face's `RobertaForMaskedLM`.
///
///     RobertaForMaskedLm model({.vocab_size = 10048, .hidden_size = 256, .num_hidden_layers = 4,
///                               .num_attention_heads = 4, .intermediate_size = 1024});
///     Trainer trainer(model, ...);
///
/// Batches have `input_ids` and `labels`, int32 `[rows, length]`, and `attention_mask`, int64 of that shape; without a
/// mask padding is attended to as any token is. A label of -100 means none; the weight of a step is its number of
/// labels, and the head runs on labelled positions only.
///
/// Dropout is keyed by seed, step and row in the global batch. Immutable, any thread; a checkpoint holds the weights.
class RobertaForMaskedLm final : public TapeModel {
 public:
  /// `bucket_bytes` as in `ParameterLayout::finish`. Throws `kInvalidArgument` for a config that cannot work.
  explicit RobertaForMaskedLm(RobertaConfig config, int64_t bucket_bytes = int64_t{1} << 20);

  const RobertaConfig& config() const { return encoder_.config(); }
  const RobertaEncoder& encoder() const { return encoder_; }
  std::string describe() const override;
  /// Normal with `initializer_range` for matrices, except padding's entries, which are 0 as are biases; gammas are 1.
  void initialize(std::span<float> weights, uint64_t seed) const override;
  /// Predicts column `ids`, int32 `[rows, length]`: the most likely token where there is a label, -100 elsewhere; of
  /// rows without labels everywhere.
  ForwardResult<float> forward(ForwardPass<float>& pass) const override { return run(pass); }
  ForwardResult<double> forward_in_double(ForwardPass<double>& pass) const override { return run(pass); }

  using DropoutKey = millrace::DropoutKey;
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
  template <typename T>
  ForwardResult<T> run(ForwardPass<T>& pass) const;

  RobertaEncoder encoder_;
  int dense_weight_ = 0;
  int dense_bias_ = 0;
  int norm_weight_ = 0;
  int norm_bias_ = 0;
  int output_bias_ = 0;
};

}  // namespace millrace

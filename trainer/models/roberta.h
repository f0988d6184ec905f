#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trainer/model.h"
#include "trainer/tensor/tape.h"

namespace millrace {

/// The sizes of a RoBERTa, by the names of Hugging Face's config.json.
struct RobertaConfig {
  int64_t vocab_size = 50265;                 ///< Default: 50265
  int64_t hidden_size = 768;                  ///< Default: 768
  int64_t num_hidden_layers = 12;             ///< Default: 12
  int64_t num_attention_heads = 12;           ///< divides hidden_size. Default: 12
  int64_t intermediate_size = 3072;           ///< Default: 3072
  int64_t max_position_embeddings = 514;      ///< the longest sequence + pad_token_id + 1. Default: 514
  int64_t type_vocab_size = 1;                ///< Default: 1
  int32_t pad_token_id = 1;                   ///< Default: 1
  int32_t bos_token_id = 0;                   ///< only written to config.json. Default: 0
  int32_t eos_token_id = 2;                   ///< only written to config.json. Default: 2
  double layer_norm_eps = 1e-5;               ///< Default: 1e-5
  double hidden_dropout_prob = 0.1;           ///< Default: 0.1
  double attention_probs_dropout_prob = 0.1;  ///< Default: 0.1
  double initializer_range = 0.02;            ///< standard deviation of start weights. Default: 0.02

  /// Throws `kInvalidArgument` naming the field, its value and the limit.
  void check() const;
};

/// What RoBERTa reads of a batch: rows of the same length.
struct RobertaInput {
  int64_t rows = 0;
  int64_t length = 0;
  int64_t first_row = 0;                    ///< in the global batch
  std::span<const int32_t> ids;             ///< `[rows, length]`
  std::span<const int64_t> attention_mask;  ///< `[rows, length]`, 0 for keys that nobody attends to; empty: none

  /// Features `input_ids` (int32) and, if there is one, `attention_mask` (int64). Throws `kWrongShape`.
  static RobertaInput of(const BatchView& rows);
};

/// RoBERTa for masked language modelling (arXiv 1907.11692): embeddings, transformer encoder, LM head whose output
/// matrix is the word embedding. Weights have the names and shapes of Hugging Face's `RobertaForMaskedLM`.
///
///     RobertaForMaskedLm model({.vocab_size = 10048, .hidden_size = 256, .num_hidden_layers = 4,
///                               .num_attention_heads = 4, .intermediate_size = 1024});
///     Trainer trainer(model, ...);
///
/// Batches have `input_ids` and `labels`, int32 `[rows, length]`, and `attention_mask`, int64 of that shape. A label of
/// -100 means none; the weight of a step is its number of labels, and the head runs on labelled positions only. A
/// token's position counts the tokens before it that are not padding (`cumsum(id != pad) * (id != pad) + pad`).
///
/// Dropout is keyed by seed, step and row in the global batch. Immutable, any thread; a checkpoint holds the weights.
class RobertaForMaskedLm final : public Model {
 public:
  /// `bucket_bytes` as in `ParameterLayout::finish`. Throws `kInvalidArgument` for a config that cannot work.
  explicit RobertaForMaskedLm(RobertaConfig config, int64_t bucket_bytes = int64_t{1} << 20);

  const RobertaConfig& config() const { return config_; }
  const ParameterLayout& layout() const override { return layout_; }
  /// Normal with `initializer_range` for matrices, except padding's entries, which are 0 as are biases; gammas are 1.
  void initialize(std::span<float> weights, uint64_t seed) const override;
  std::unique_ptr<Workspace> make_workspace() const override;
  StepResult train_step(const BatchView& rows, const float* weights, ReplicaContext& context) const override;
  StepResult evaluate(const BatchView& rows, const float* weights, Workspace& workspace) const override;
  /// Column `ids`, int32 `[rows, length]`: the most likely token where there is a label, -100 elsewhere.
  Predictions predict(const BatchView& rows, const float* weights, Workspace& workspace) const override;

  /// Which random values a forward pass uses.
  struct DropoutKey {
    uint64_t seed = 0;
    int64_t batch = 0;
    uint64_t call = 0;  ///< which call of the encoder in the step, where there are several. Default: 0
  };
  /// The encoder's hidden states, `[rows * length, hidden_size]`, after the embeddings and after each layer:
  /// num_hidden_layers + 1 tensors. Without `dropout`, nothing is dropped. T is float or double. The input must outlive
  /// the tape's step. Throws `kInvalidArgument` for an id outside the vocabulary or rows that are too long.
  template <typename T>
  std::vector<Tensor<T>> encode(Tape<T>& tape, const RobertaInput& input, const DropoutKey* dropout = nullptr) const;
  /// The LM head on some rows of the last hidden states, by index: logits `[indices, vocab_size]`.
  template <typename T>
  Tensor<T> logits(Tape<T>& tape, const Tensor<T>& hidden, std::span<const int32_t> indices) const;

 private:
  struct Dense {
    int weight = 0;
    int bias = 0;
  };
  struct Norm {
    int weight = 0;
    int bias = 0;
  };
  struct Layer {
    Dense query;
    Dense key;
    Dense value;
    Dense attention_output;
    Norm attention_norm;
    Dense intermediate;
    Dense output;
    Norm output_norm;
  };

  Dense add_dense(const std::string& name, int64_t out, int64_t in);
  Norm add_norm(const std::string& name);

  RobertaConfig config_;
  ParameterLayout layout_;
  int word_embeddings_ = 0;
  int position_embeddings_ = 0;
  int token_type_embeddings_ = 0;
  Norm embeddings_norm_;
  std::vector<Layer> layers_;
  Dense head_dense_;
  Norm head_norm_;
  int head_bias_ = 0;
};

}  // namespace millrace

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "millrace/trainer/tape_model.h"
#include "millrace/trainer/tensor/feed_forward.h"
#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// The sizes of a T5, by the names of Hugging Face's config.json.
struct T5Config {
  int64_t vocab_size = 32128;                     ///< Default: 32128
  int64_t d_model = 512;                          ///< width of the hidden states. Default: 512
  int64_t d_kv = 64;                              ///< width of a head. Default: 64
  int64_t d_ff = 2048;                            ///< inner width of the feed-forward blocks. Default: 2048
  int64_t num_layers = 6;                         ///< of the encoder. Default: 6
  int64_t num_decoder_layers = 6;                 ///< Default: 6
  int64_t num_heads = 8;                          ///< Default: 8
  int64_t relative_attention_num_buckets = 32;    ///< Default: 32
  int64_t relative_attention_max_distance = 128;  ///< Default: 128
  /// What the feed-forward blocks are: an activation (see `activation_named`), or `gated-` and one; `gated-gelu` is, as
  /// in transformers, gated with `gelu_new`. Default: relu
  std::string feed_forward_proj = "relu";
  /// The activation, whatever feed_forward_proj says. Default: none, as feed_forward_proj says
  std::optional<std::string> dense_act_fn = std::nullopt;
  /// Whether the blocks are gated, whatever feed_forward_proj says. Default: none, as feed_forward_proj says
  std::optional<bool> is_gated_act = std::nullopt;
  bool tie_word_embeddings = true;  ///< false: an output matrix of its own, as T5 v1.1 has it. Default: true
  /// Whether the decoder's last states are multiplied by d_model^-0.5 before the output matrix. Default: none, as
  /// tie_word_embeddings says (version 1.0 does, 1.1 does not)
  std::optional<bool> scale_decoder_outputs = std::nullopt;
  double dropout_rate = 0.1;           ///< Default: 0.1
  double layer_norm_epsilon = 1e-6;    ///< Default: 1e-6
  double initializer_factor = 1;       ///< Default: 1
  int32_t pad_token_id = 0;            ///< what stands for missing labels in front of the decoder. Default: 0
  int32_t eos_token_id = 1;            ///< where `generate` ends a row. Default: 1
  int32_t decoder_start_token_id = 0;  ///< what the decoder begins with. Default: 0
  /// The family whose computation and tensors these are: `t5` or `mt5`; only written to config.json. Default: t5
  std::string model_type = "t5";

  /// The name of the activation, and whether there is a gate, of the three fields above.
  std::string activation() const;
  bool gated() const;
  /// `scale_decoder_outputs`, or what stands for it.
  bool scales_outputs() const { return scale_decoder_outputs.value_or(tie_word_embeddings); }
  /// Throws `kInvalidArgument` naming the field, its value and the limit.
  void check() const;
};

/// What T5's encoder reads of a batch: rows of the same length.
struct T5Input {
  int64_t rows = 0;
  int64_t length = 0;
  int64_t first_row = 0;                         ///< in the global batch
  std::span<const int32_t> ids = {};             ///< `[rows, length]`
  std::span<const int64_t> attention_mask = {};  ///< `[rows, length]`, 0 for keys that nobody attends to; empty: none

  /// Features `input_ids` (int32) and, if there is one, `attention_mask` (int64). Throws `kWrongShape`.
  static T5Input of(const BatchView& rows);
};

/// What T5's decoder reads: as many rows as the encoder, of a length of their own.
struct T5DecoderInput {
  int64_t length = 0;
  std::span<const int32_t> ids = {};             ///< `[rows, length]`
  std::span<const int64_t> attention_mask = {};  ///< `[rows, length]`, 0 for keys that nobody attends to; empty: none
};

/// T5 (arXiv 1910.10683), a transformer with encoder and decoder, and its version 1.1: relative position buckets, root
/// mean square norms in front of each block, no biases. Weights have the names and shapes of Hugging Face's
/// `T5ForConditionalGeneration`.
///
///     T5ForConditionalGeneration model(load_t5_config("t5-base"));
///     Trainer trainer(model, ...);
///
/// Batches have `input_ids` int32 `[rows, length]`, `attention_mask` int64 of that shape, `labels` int32 `[rows,
/// targets]`, and, if there is one, `decoder_attention_mask` int64 of the labels' shape. The decoder reads the labels
/// shifted to the right, `decoder_start_token_id` in front. A label of -100 means none; the weight of a step is its
/// number of labels.
///
/// Dropout is keyed by seed, step and row in the global batch. Immutable, any thread; a checkpoint holds the weights.
class T5ForConditionalGeneration final : public TapeModel {
 public:
  /// `bucket_bytes` as in `ParameterLayout::finish`. Throws `kInvalidArgument` for a config that cannot work.
  explicit T5ForConditionalGeneration(T5Config config, int64_t bucket_bytes = int64_t{1} << 20);

  const T5Config& config() const { return config_; }
  std::string describe() const override;
  /// Normal, with the deviations of the original code (which make up for scores that are not scaled); gammas are
  /// `initializer_factor`.
  void initialize(std::span<float> weights, uint64_t seed) const override;
  /// The losses; in a prediction also column `token`, of the rows whose first label is there: `predict_first`.
  ForwardResult<float> forward(ForwardPass<float>& pass) const override { return run(pass); }
  ForwardResult<double> forward_in_double(ForwardPass<double>& pass) const override { return run(pass); }
  /// Column `ids`, int32 `[rows, length]`: what greedy search (`generate`) gives, as many tokens as `labels` has, or 20
  /// without labels.
  Predictions predict(const BatchView& rows, const float* weights, Workspace& workspace) const override;

  /// Column `token`, int32 `[rows]`: the first that greedy search gives; losses where the rows have labels. The decoder
  /// reads the same for both, so one pass gives them, unless a row's first label is missing or masked.
  Predictions predict_first(const BatchView& rows, const float* weights, Workspace& workspace) const;

  using DropoutKey = millrace::DropoutKey;
  /// The encoder's hidden states, `[rows * length, d_model]`, after the embeddings and after each block, the last one
  /// after the final norm: num_layers + 1 tensors. Without `dropout`, nothing is dropped. T is float or double. The
  /// input must outlive the tape's step. Throws `kInvalidArgument` for an id outside the vocabulary.
  template <typename T>
  std::vector<Tensor<T>> encode(Tape<T>& tape, const T5Input& input, const DropoutKey* dropout = nullptr) const;
  /// The decoder's, in the same way; `encoded` is the last state of the encoder for `input`.
  template <typename T>
  std::vector<Tensor<T>> decode(Tape<T>& tape, const Tensor<T>& encoded, const T5Input& input,
                                const T5DecoderInput& decoder_input, const DropoutKey* dropout = nullptr) const;
  /// The LM head on some rows of the decoder's last states, by index: logits `[indices, vocab_size]`.
  template <typename T>
  Tensor<T> logits(Tape<T>& tape, const Tensor<T>& hidden, std::span<const int32_t> indices) const;
  /// The labels `[rows, length]` shifted to the right by one: `decoder_start_token_id` in front, -100 read as
  /// `pad_token_id`.
  std::vector<int32_t> shift_right(std::span<const int32_t> labels, int64_t length) const;

  /// Greedy decoding: `[rows, max_length]` ids without the start token, each the most likely after those before it (of
  /// equal ones the lowest id), `pad_token_id` after `eos_token_id`.
  std::vector<int32_t> generate(const T5Input& input, int64_t max_length, const float* weights,
                                Workspace& workspace) const;

 private:
  struct Attention {
    int norm = 0;
    int query = 0;
    int key = 0;
    int value = 0;
    int output = 0;
  };
  struct Block {
    Attention self;
    std::optional<Attention> cross;
    int feed_forward_norm = 0;
    int in = 0;
    std::optional<int> gate;
    int out = 0;
  };
  struct Stack {
    std::vector<Block> blocks;
    int position_table = 0;
    int final_norm = 0;
  };
  template <typename T>
  class Pass;

  Stack add_stack(const std::string& name, int64_t num_blocks, bool decoder);
  Attention add_attention(const std::string& layer, const std::string& name);
  double deviation(const std::string& name) const;
  template <typename T>
  ForwardResult<T> run(ForwardPass<T>& pass) const;

  T5Config config_;
  Activation activation_ = Activation::kRelu;
  int embeddings_ = 0;
  int output_matrix_ = 0;
  Stack encoder_;
  Stack decoder_;
};

}  // namespace millrace

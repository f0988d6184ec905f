#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/trainer/batch_view.h"
#include "millrace/trainer/parameters.h"
#include "millrace/trainer/tensor/dropout.h"
#include "millrace/trainer/tensor/feed_forward.h"
#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// The sizes of a RoBERTa, by the names of Hugging Face's config.json.
struct RobertaConfig {
  int64_t vocab_size = 50265;                 ///< Default: 50265
  int64_t hidden_size = 768;                  ///< Default: 768
  int64_t num_hidden_layers = 12;             ///< Default: 12
  int64_t num_attention_heads = 12;           ///< divides hidden_size. Default: 12
  int64_t intermediate_size = 3072;           ///< Default: 3072
  Activation hidden_act = Activation::kGelu;  ///< of the feed-forward layers; an LM head has its own. Default: kGelu
  int64_t max_position_embeddings = 514;      ///< the longest sequence + pad_token_id + 1. Default: 514
  int64_t type_vocab_size = 1;                ///< Default: 1
  int32_t pad_token_id = 1;                   ///< Default: 1
  int32_t bos_token_id = 0;                   ///< only written to config.json. Default: 0
  int32_t eos_token_id = 2;                   ///< only written to config.json. Default: 2
  double layer_norm_eps = 1e-5;               ///< Default: 1e-5
  double hidden_dropout_prob = 0.1;           ///< Default: 0.1
  double attention_probs_dropout_prob = 0.1;  ///< Default: 0.1
  double initializer_range = 0.02;            ///< standard deviation of start weights. Default: 0.02
  /// The family whose computation and tensors these are: `roberta`, `xlm-roberta` or `camembert`; only written to
  /// config.json, so that others find its tokenizer. Default: roberta
  std::string model_type = "roberta";

  /// Throws `kInvalidArgument` naming the field, its value and the limit.
  void check() const;
};

/// What RoBERTa reads of a batch: rows of the same length.
struct RobertaInput {
  int64_t rows = 0;
  int64_t length = 0;
  int64_t first_row = 0;              ///< in the global batch
  std::span<const int32_t> ids = {};  ///< `[rows, length]`
  /// `[rows, length]`, 0 for keys that nobody attends to. Empty: none, every token is attended to, padding too
  std::span<const int64_t> attention_mask = {};

  /// The feature `ids` (int32) and, if there is one, `mask` (int64); see `RobertaEncoder::masked_input` for rows that
  /// have padding and no mask. Throws `kMissingFeature` without ids, and `kWrongShape` for other types or where the two
  /// are not alike. Default: input_ids and attention_mask
  static RobertaInput of(const BatchView& rows, std::string_view ids = "input_ids",
                         std::string_view mask = "attention_mask");
};

/// The encoder of RoBERTa (arXiv 1907.11692) as a part of a model: embeddings and transformer layers, whose parameters
/// it registers in the model's layout. A model may call it several times in a step (a question and its answer), have
/// several of them, and put heads of its own on top; `RobertaForMaskedLm` is one such model.
///
///     class Matcher final : public TapeModel {  // how well an answer fits its question
///      public:
///       explicit Matcher(const RobertaConfig& config)
///           : encoder_(layout_, config, "encoder"), head_(layout_.add("head.weight", {1, config.hidden_size})) {
///         layout_.finish();
///       }
///       std::string describe() const override { return "matcher(" + encoder_.describe() + ")"; }
///       void initialize(std::span<float> weights, uint64_t seed) const override {
///         encoder_.initialize(layout_, weights, seed);
///         initialize_parameter(layout_, head_, 0.02, weights, seed);
///       }
///       ForwardResult<float> forward(ForwardPass<float>& pass) const override {
///         Tape<float>& tape = pass.tape();
///         // The mean of a text's states, [rows, hidden_size]: features question_ids, answer_ids, and their masks.
///         const auto mean_of = [&](const std::string& text, uint64_t call) {
///           const RobertaInput input = encoder_.masked_input(tape, pass.rows(), text + "_ids", text + "_mask");
///           const Tensor<float> states = encoder_.encode(tape, input, pass.dropout_key(call)).back();
///           return mean_pool(tape, states.reshaped({input.rows, input.length, states.columns()}),
///                            input.attention_mask);
///         };
///         const Tensor<float> both = multiply(tape, mean_of("question", 0), mean_of("answer", 1));
///         const Tensor<float> logits = matmul(tape, both, tape.parameter(head_), {.transpose_b = true});
///         ForwardResult<float> result;
///         if (pass.predicts()) result.columns = {predicted_column("scores", logits)};
///         if (const FeatureView* labels = pass.labels()) {
///           const Tensor<float> losses = bce_with_logits(tape, logits, pass.constant(*labels).reshaped(logits.shape));
///           result.losses.emplace_back(sum(tape, losses), static_cast<double>(pass.rows().rows()));
///         }
///         return result;
///       }
///
///      private:
///       RobertaEncoder encoder_;
///       int head_;
///     };
///
/// A token's position counts the tokens before it that are not padding (`cumsum(id != pad) * (id != pad) + pad`).
/// Immutable; any thread.
class RobertaEncoder {
 public:
  /// Adds `PREFIX.embeddings.word_embeddings.weight` and so on, in Hugging Face's names and shapes, which follow the
  /// model's loss number `loss`. Throws `kInvalidArgument` for a config that cannot work.
  RobertaEncoder(ParameterLayout& layout, RobertaConfig config, const std::string& prefix = "roberta", int loss = 0);

  const RobertaConfig& config() const { return config_; }
  /// What its shapes do not tell and training depends on, for `Model::describe` of the model that it is a part of:
  /// `num_attention_heads=12, pad_token_id=1, layer_norm_eps=1e-05, ...`, one line without brackets around it.
  std::string describe() const;
  /// The id of the word embeddings `[vocab_size, hidden_size]`, for a head that is tied to them.
  int word_embeddings() const { return word_embeddings_; }
  /// Start values of the encoder's parameters, in weights of the finished layout: normal with `initializer_range` for
  /// matrices, except padding's entries, which are 0 as are biases; gammas are 1.
  void initialize(const ParameterLayout& layout, std::span<float> weights, uint64_t seed) const;

  /// The position of each token of the input, `[rows * length]`. Throws `kInvalidArgument` for a row that is too long.
  void position_ids(const RobertaInput& input, int32_t* positions) const;

  /// `RobertaInput::of`, and always with a mask, as `mean_pool` wants one too: of rows without the feature `mask` the
  /// tokens that are not `pad_token_id` are attended to. Such a mask is made here and kept by the tape, until that
  /// begins anew. T is float or double. Throws as `RobertaInput::of`.
  template <typename T>
  RobertaInput masked_input(Tape<T>& tape, const BatchView& rows, std::string_view ids = "input_ids",
                            std::string_view mask = "attention_mask") const;

  using DropoutKey = millrace::DropoutKey;
  /// The hidden states, `[rows * length, hidden_size]`, after the embeddings and after each layer: num_hidden_layers +
  /// 1 tensors. Without `dropout`, nothing is dropped. T is float or double. Ids and mask that the input points to must
  /// stay until the tape begins anew, as features of the rows and what `ForwardPass::keep` keeps do; the input itself
  /// need not. Throws `kInvalidArgument` for an id outside the vocabulary or rows that are too long.
  template <typename T>
  std::vector<Tensor<T>> encode(Tape<T>& tape, const RobertaInput& input, const DropoutKey* dropout = nullptr) const;
  /// The rows `tokens` of the last hidden states alone, `[tokens, hidden_size]`: what `encode(...).back()` has there,
  /// but the last layer computes nothing after its attention for the other tokens. `tokens`, in ascending order, count
  /// in `[rows * length]` and must stay as ids and mask must. Throws `kInvalidArgument` also for one that is not there.
  template <typename T>
  Tensor<T> encode_tokens(Tape<T>& tape, const RobertaInput& input, std::span<const int32_t> tokens,
                          const DropoutKey* dropout = nullptr) const;

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

  // `tokens`: the last states are of these only.
  template <typename T>
  std::vector<Tensor<T>> states(Tape<T>& tape, const RobertaInput& input, const DropoutKey* dropout,
                                std::optional<std::span<const int32_t>> tokens) const;

  RobertaConfig config_;
  int word_embeddings_ = 0;
  int position_embeddings_ = 0;
  int token_type_embeddings_ = 0;
  Norm embeddings_norm_;
  std::vector<Layer> layers_;
  int end_ = 0;  // of its ids; the first is that of the word embeddings
};

}  // namespace millrace

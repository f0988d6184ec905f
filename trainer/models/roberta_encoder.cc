#include "millrace/trainer/models/roberta_encoder.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/models/config_limits.h"
#include "millrace/trainer/models/named_activation.h"
#include "millrace/trainer/models/normal_weights.h"
#include "millrace/trainer/tensor/attention.h"
#include "millrace/trainer/tensor/dropout.h"
#include "millrace/trainer/tensor/embedding.h"
#include "millrace/trainer/tensor/layer_norm.h"
#include "millrace/trainer/tensor/linear.h"

namespace millrace {
namespace {

// The places of dropout: the embeddings, then three for each layer.
constexpr uint64_t kEmbeddingDropout = 0;
enum class LayerDropout : uint64_t { kAttention = 1, kAttentionOutput = 2, kOutput = 3 };
uint64_t place_of(size_t layer, LayerDropout dropout) { return 3 * layer + static_cast<uint64_t>(dropout); }

}  // namespace

void RobertaConfig::check() const {
  check_size("vocab_size", vocab_size);
  check_size("hidden_size", hidden_size);
  check_layers("num_hidden_layers", num_hidden_layers);
  check_size("num_attention_heads", num_attention_heads);
  check_size("intermediate_size", intermediate_size);
  check_size("type_vocab_size", type_vocab_size);
  check_token("pad_token_id", pad_token_id, vocab_size);
  check_size("max_position_embeddings", max_position_embeddings, int64_t{pad_token_id} + 2);
  if (hidden_size % num_attention_heads != 0) {
    throw ErrorException(
        ErrorCode::kInvalidArgument,
        fmt::format("hidden_size {} is no multiple of num_attention_heads {}", hidden_size, num_attention_heads));
  }
  check_probability("hidden_dropout_prob", hidden_dropout_prob);
  check_probability("attention_probs_dropout_prob", attention_probs_dropout_prob);
  check_positive("layer_norm_eps", layer_norm_eps);
  check_not_negative("initializer_range", initializer_range);
}

RobertaInput RobertaInput::of(const BatchView& rows, std::string_view ids, std::string_view mask) {
  const FeatureView& tokens = rows.feature(ids);
  RobertaInput input{
      .rows = rows.rows(), .length = tokens.row_size(), .first_row = rows.first_row(), .ids = tokens.values<int32_t>()};
  const FeatureView* given = rows.find(mask);
  if (given == nullptr) return input;
  input.attention_mask = given->values<int64_t>();
  if (input.attention_mask.size() != input.ids.size()) {
    throw ErrorException(ErrorCode::kWrongShape, fmt::format("{} has {} values, {} {}", mask,
                                                             input.attention_mask.size(), ids, input.ids.size()));
  }
  return input;
}

RobertaEncoder::RobertaEncoder(ParameterLayout& layout, RobertaConfig config, const std::string& prefix, int loss)
    : config_(std::move(config)) {
  config_.check();
  const int64_t hidden = config_.hidden_size;
  const auto add = [&](const std::string& name, const std::vector<int64_t>& shape) {
    return layout.add(name, shape, loss);
  };
  const auto add_dense = [&](const std::string& name, int64_t out, int64_t in) {
    Dense dense;
    dense.weight = add(name + ".weight", {out, in});
    dense.bias = add(name + ".bias", {out});
    return dense;
  };
  const auto add_norm = [&](const std::string& name) {
    Norm norm;
    norm.weight = add(name + ".weight", {hidden});
    norm.bias = add(name + ".bias", {hidden});
    return norm;
  };
  const std::string embeddings = prefix + ".embeddings.";
  word_embeddings_ = add(embeddings + "word_embeddings.weight", {config_.vocab_size, hidden});
  position_embeddings_ = add(embeddings + "position_embeddings.weight", {config_.max_position_embeddings, hidden});
  token_type_embeddings_ = add(embeddings + "token_type_embeddings.weight", {config_.type_vocab_size, hidden});
  embeddings_norm_ = add_norm(embeddings + "LayerNorm");
  for (int64_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
    const std::string name = fmt::format("{}.encoder.layer.{}.", prefix, layer);
    Layer added;
    added.query = add_dense(name + "attention.self.query", hidden, hidden);
    added.key = add_dense(name + "attention.self.key", hidden, hidden);
    added.value = add_dense(name + "attention.self.value", hidden, hidden);
    added.attention_output = add_dense(name + "attention.output.dense", hidden, hidden);
    added.attention_norm = add_norm(name + "attention.output.LayerNorm");
    added.intermediate = add_dense(name + "intermediate.dense", config_.intermediate_size, hidden);
    added.output = add_dense(name + "output.dense", hidden, config_.intermediate_size);
    added.output_norm = add_norm(name + "output.LayerNorm");
    layers_.push_back(added);
  }
  end_ = static_cast<int>(layout.parameters().size());
}

void RobertaEncoder::initialize(const ParameterLayout& layout, std::span<float> weights, uint64_t seed) const {
  for (int id = word_embeddings_; id < end_; ++id) {
    initialize_parameter(layout, id, config_.initializer_range, weights, seed);
  }
  for (const int table : {word_embeddings_, position_embeddings_}) {
    const Parameter& parameter = layout.parameters()[static_cast<size_t>(table)];
    const int64_t begin = parameter.offset + config_.pad_token_id * config_.hidden_size;
    std::fill_n(weights.begin() + begin, config_.hidden_size, 0.0F);
  }
}

std::string RobertaEncoder::describe() const {
  return fmt::format(
      "num_attention_heads={}, pad_token_id={}, layer_norm_eps={}, hidden_dropout_prob={}, "
      "attention_probs_dropout_prob={}, hidden_act={}",
      config_.num_attention_heads, config_.pad_token_id, config_.layer_norm_eps, config_.hidden_dropout_prob,
      config_.attention_probs_dropout_prob, name_of(config_.hidden_act));
}

template <typename T>
RobertaInput RobertaEncoder::masked_input(Tape<T>& tape, const BatchView& rows, std::string_view ids,
                                          std::string_view mask) const {
  RobertaInput input = RobertaInput::of(rows, ids, mask);
  if (!input.attention_mask.empty()) return input;
  auto* made = tape.template keep<int64_t>(std::ssize(input.ids));
  std::ranges::transform(input.ids, made, [this](int32_t id) { return id == config_.pad_token_id ? 0 : 1; });
  input.attention_mask = {made, input.ids.size()};
  return input;
}

void RobertaEncoder::position_ids(const RobertaInput& input, int32_t* positions) const {
  for (int64_t row = 0; row < input.rows; ++row) {
    int32_t position = config_.pad_token_id;
    for (int64_t i = row * input.length; i < (row + 1) * input.length; ++i) {
      const bool padding = input.ids[static_cast<size_t>(i)] == config_.pad_token_id;
      positions[i] = padding ? config_.pad_token_id : ++position;
    }
    if (position < config_.max_position_embeddings) continue;
    throw ErrorException(
        ErrorCode::kInvalidArgument,
        fmt::format("row {} has {} tokens; the model has positions for {}", input.first_row + row,
                    position - config_.pad_token_id, config_.max_position_embeddings - config_.pad_token_id - 1));
  }
}

template <typename T>
std::vector<Tensor<T>> RobertaEncoder::states(Tape<T>& tape, const RobertaInput& input, const DropoutKey* dropout_key,
                                              std::optional<std::span<const int32_t>> tokens) const {
  const int64_t count = input.rows * input.length;
  auto* positions = tape.template keep<int32_t>(count);
  position_ids(input, positions);
  auto* types = tape.template keep<int32_t>(count);
  std::fill_n(types, count, 0);

  const auto mask_of = [&](double probability, uint64_t place) {
    if (dropout_key == nullptr) return DropoutMask();
    return DropoutMask(probability, dropout_key->seed, dropout_key->batch, dropout_key->call << 32U | place,
                       input.first_row);
  };
  const auto dense = [&](const Tensor<T>& x, const Dense& d) {
    return linear(tape, x, tape.parameter(d.weight), tape.parameter(d.bias));
  };
  bool chosen = false;  // the tokens from now on
  const auto choose_tokens = [&](const Tensor<T>& x) {
    return embedding_sum<T>(tape, {{.table = x, .ids = *tokens}});  // looks up rows
  };
  const auto add_and_norm = [&](const Tensor<T>& x, const Tensor<T>& residual, const Norm& norm, uint64_t place) {
    const DropoutMask mask = mask_of(config_.hidden_dropout_prob, place);
    const Tensor<T> gamma = tape.parameter(norm.weight);
    const Tensor<T> beta = tape.parameter(norm.bias);
    const double epsilon = config_.layer_norm_eps;
    if (!chosen) return residual_layer_norm(tape, x, residual, input.rows, mask, gamma, beta, epsilon);
    return residual_layer_norm(tape, x, residual, input.length, *tokens, mask, gamma, beta, epsilon);
  };

  const auto size = static_cast<size_t>(count);
  Tensor<T> hidden = embedding_sum<T>(
      tape,
      {{.table = tape.parameter(word_embeddings_), .ids = input.ids, .padding_id = config_.pad_token_id},
       {.table = tape.parameter(position_embeddings_), .ids = {positions, size}, .padding_id = config_.pad_token_id},
       {.table = tape.parameter(token_type_embeddings_), .ids = {types, size}}});
  hidden = layer_norm(tape, hidden, tape.parameter(embeddings_norm_.weight), tape.parameter(embeddings_norm_.bias),
                      config_.layer_norm_eps);
  hidden = dropout(tape, hidden, input.rows, mask_of(config_.hidden_dropout_prob, kEmbeddingDropout));

  std::vector<Tensor<T>> states = {hidden};
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    const AttentionOptions<T> options{
        .batch_rows = input.rows,
        .heads = config_.num_attention_heads,
        .dropout = mask_of(config_.attention_probs_dropout_prob, place_of(i, LayerDropout::kAttention)),
        .key_mask = input.attention_mask};
    Tensor<T> context =
        attention(tape, dense(hidden, layer.query), dense(hidden, layer.key), dense(hidden, layer.value), options);
    if (tokens && i + 1 == layers_.size()) {  // the others are read by nothing that follows
      context = choose_tokens(context);
      hidden = choose_tokens(hidden);
      chosen = true;
    }
    hidden = add_and_norm(dense(context, layer.attention_output), hidden, layer.attention_norm,
                          place_of(i, LayerDropout::kAttentionOutput));
    const FeedForwardWeights<T> weights{.in = tape.parameter(layer.intermediate.weight),
                                        .in_bias = tape.parameter(layer.intermediate.bias),
                                        .out = tape.parameter(layer.output.weight),
                                        .out_bias = tape.parameter(layer.output.bias)};
    hidden = add_and_norm(feed_forward(tape, hidden, weights, {.activation = config_.hidden_act}), hidden,
                          layer.output_norm, place_of(i, LayerDropout::kOutput));
    states.push_back(hidden);
  }
  return states;
}

template <typename T>
std::vector<Tensor<T>> RobertaEncoder::encode(Tape<T>& tape, const RobertaInput& input,
                                              const DropoutKey* dropout) const {
  return states(tape, input, dropout, std::nullopt);
}

template <typename T>
Tensor<T> RobertaEncoder::encode_tokens(Tape<T>& tape, const RobertaInput& input, std::span<const int32_t> tokens,
                                        const DropoutKey* dropout) const {
  return states(tape, input, dropout, tokens).back();
}

template RobertaInput RobertaEncoder::masked_input(Tape<float>&, const BatchView&, std::string_view,
                                                   std::string_view) const;
template RobertaInput RobertaEncoder::masked_input(Tape<double>&, const BatchView&, std::string_view,
                                                   std::string_view) const;
template std::vector<Tensor<float>> RobertaEncoder::encode(Tape<float>&, const RobertaInput&, const DropoutKey*) const;
template std::vector<Tensor<double>> RobertaEncoder::encode(Tape<double>&, const RobertaInput&,
                                                            const DropoutKey*) const;
template Tensor<float> RobertaEncoder::encode_tokens(Tape<float>&, const RobertaInput&, std::span<const int32_t>,
                                                     const DropoutKey*) const;
template Tensor<double> RobertaEncoder::encode_tokens(Tape<double>&, const RobertaInput&, std::span<const int32_t>,
                                                      const DropoutKey*) const;

}  // namespace millrace

#include "trainer/models/roberta.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "formats/error.h"
#include "ops/counter_rng.h"
#include "trainer/models/labelled_positions.h"
#include "trainer/models/normal_weights.h"
#include "trainer/tensor/attention.h"
#include "trainer/tensor/cross_entropy.h"
#include "trainer/tensor/dropout.h"
#include "trainer/tensor/embedding.h"
#include "trainer/tensor/feed_forward.h"
#include "trainer/tensor/gelu.h"
#include "trainer/tensor/layer_norm.h"
#include "trainer/tensor/linear.h"

namespace millrace {
namespace {

// The places of dropout: the embeddings, then three for each layer.
constexpr uint64_t kEmbeddingDropout = 0;
enum class LayerDropout : uint64_t { kAttention = 1, kAttentionOutput = 2, kOutput = 3 };
uint64_t place_of(size_t layer, LayerDropout dropout) { return 3 * layer + static_cast<uint64_t>(dropout); }

class RobertaWorkspace final : public Workspace {
 public:
  Arena arena;
  Tape<float> tape{arena};
  LabelledPositions labelled;
};

}  // namespace

void RobertaConfig::check() const {
  const auto at_least = [](const char* name, int64_t value, int64_t least) {
    if (value >= least) return;
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("{} is {}; at least {} is needed", name, value, least));
  };
  at_least("vocab_size", vocab_size, 1);
  at_least("hidden_size", hidden_size, 1);
  at_least("num_hidden_layers", num_hidden_layers, 1);
  at_least("num_attention_heads", num_attention_heads, 1);
  at_least("intermediate_size", intermediate_size, 1);
  at_least("type_vocab_size", type_vocab_size, 1);
  at_least("pad_token_id", pad_token_id, 0);
  at_least("max_position_embeddings", max_position_embeddings, int64_t{pad_token_id} + 2);
  if (hidden_size % num_attention_heads != 0) {
    throw ErrorException(
        ErrorCode::kInvalidArgument,
        fmt::format("hidden_size {} is no multiple of num_attention_heads {}", hidden_size, num_attention_heads));
  }
  if (pad_token_id >= vocab_size) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("pad_token_id is {}; the vocabulary has {} entries", pad_token_id, vocab_size));
  }
  const auto probability = [](const char* name, double value) {
    if (value >= 0 && value < 1) return;
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("{} is {}; 0 <= {} < 1 is needed", name, value, name));
  };
  probability("hidden_dropout_prob", hidden_dropout_prob);
  probability("attention_probs_dropout_prob", attention_probs_dropout_prob);
  if (!(layer_norm_eps > 0)) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("layer_norm_eps is {}; more than 0 is needed", layer_norm_eps));
  }
  if (!(initializer_range >= 0 && std::isfinite(initializer_range))) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("initializer_range is {}; a number from 0 on is needed", initializer_range));
  }
}

RobertaInput RobertaInput::of(const BatchView& rows) {
  const FeatureView& ids = rows.feature("input_ids");
  RobertaInput input{
      .rows = rows.rows(), .length = ids.row_size(), .first_row = rows.first_row(), .ids = ids.values<int32_t>()};
  for (const FeatureView& feature : rows.features()) {
    if (feature.name() == "attention_mask") input.attention_mask = feature.values<int64_t>();
  }
  if (!input.attention_mask.empty() && input.attention_mask.size() != input.ids.size()) {
    throw ErrorException(ErrorCode::kWrongShape, fmt::format("attention_mask has {} values, input_ids {}",
                                                             input.attention_mask.size(), input.ids.size()));
  }
  return input;
}

RobertaForMaskedLm::RobertaForMaskedLm(RobertaConfig config, int64_t bucket_bytes) : config_(config) {
  config_.check();
  const int64_t hidden = config_.hidden_size;
  const std::string embeddings = "roberta.embeddings.";
  word_embeddings_ = layout_.add(embeddings + "word_embeddings.weight", {config_.vocab_size, hidden});
  position_embeddings_ =
      layout_.add(embeddings + "position_embeddings.weight", {config_.max_position_embeddings, hidden});
  token_type_embeddings_ = layout_.add(embeddings + "token_type_embeddings.weight", {config_.type_vocab_size, hidden});
  embeddings_norm_ = add_norm(embeddings + "LayerNorm");
  for (int64_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
    const std::string name = fmt::format("roberta.encoder.layer.{}.", layer);
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
  head_dense_ = add_dense("lm_head.dense", hidden, hidden);
  head_norm_ = add_norm("lm_head.layer_norm");
  head_bias_ = layout_.add("lm_head.bias", {config_.vocab_size});
  // Some versions of transformers set the bias to 0 when they do not find it here.
  layout_.add_second_name(head_bias_, "lm_head.decoder.bias");
  layout_.finish(bucket_bytes);
}

RobertaForMaskedLm::Dense RobertaForMaskedLm::add_dense(const std::string& name, int64_t out, int64_t in) {
  Dense dense;
  dense.weight = layout_.add(name + ".weight", {out, in});
  dense.bias = layout_.add(name + ".bias", {out});
  return dense;
}

RobertaForMaskedLm::Norm RobertaForMaskedLm::add_norm(const std::string& name) {
  Norm norm;
  norm.weight = layout_.add(name + ".weight", {config_.hidden_size});
  norm.bias = layout_.add(name + ".bias", {config_.hidden_size});
  return norm;
}

void RobertaForMaskedLm::initialize(std::span<float> weights, uint64_t seed) const {
  const CounterRng rng(seed, operator_id("initialize"));
  const std::span<const Parameter> parameters = layout_.parameters();
  for (size_t id = 0; id < parameters.size(); ++id) {
    const Parameter& parameter = parameters[id];
    const std::span<float> values =
        weights.subspan(static_cast<size_t>(parameter.offset), static_cast<size_t>(parameter.size));
    if (parameter.shape.size() == 1) {
      const bool gamma = parameter.name.ends_with("LayerNorm.weight") || parameter.name.ends_with("layer_norm.weight");
      std::fill(values.begin(), values.end(), gamma ? 1.0F : 0.0F);
      continue;
    }
    fill_normal(rng, id, config_.initializer_range, values);
  }
  for (const int table : {word_embeddings_, position_embeddings_}) {
    const Parameter& parameter = parameters[static_cast<size_t>(table)];
    const int64_t begin = parameter.offset + config_.pad_token_id * config_.hidden_size;
    std::fill_n(weights.begin() + begin, config_.hidden_size, 0.0F);
  }
}

std::unique_ptr<Workspace> RobertaForMaskedLm::make_workspace() const { return std::make_unique<RobertaWorkspace>(); }

template <typename T>
std::vector<Tensor<T>> RobertaForMaskedLm::encode(Tape<T>& tape, const RobertaInput& input,
                                                  const DropoutKey* dropout_key) const {
  const int64_t count = input.rows * input.length;
  auto* positions = tape.template keep<int32_t>(count);
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
  const auto add_and_norm = [&](const Tensor<T>& x, const Tensor<T>& residual, const Norm& norm, uint64_t place) {
    return residual_layer_norm(tape, x, residual, input.rows, mask_of(config_.hidden_dropout_prob, place),
                               tape.parameter(norm.weight), tape.parameter(norm.bias), config_.layer_norm_eps);
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
    const Tensor<T> context =
        attention(tape, dense(hidden, layer.query), dense(hidden, layer.key), dense(hidden, layer.value), options);
    hidden = add_and_norm(dense(context, layer.attention_output), hidden, layer.attention_norm,
                          place_of(i, LayerDropout::kAttentionOutput));
    const FeedForwardWeights<T> weights{.in = tape.parameter(layer.intermediate.weight),
                                        .in_bias = tape.parameter(layer.intermediate.bias),
                                        .out = tape.parameter(layer.output.weight),
                                        .out_bias = tape.parameter(layer.output.bias)};
    hidden = add_and_norm(feed_forward(tape, hidden, weights, {.activation = Activation::kGelu}), hidden,
                          layer.output_norm, place_of(i, LayerDropout::kOutput));
    states.push_back(hidden);
  }
  return states;
}

template <typename T>
Tensor<T> RobertaForMaskedLm::logits(Tape<T>& tape, const Tensor<T>& hidden, std::span<const int32_t> indices) const {
  // Looking up rows of an activation is looking up rows of a table.
  Tensor<T> x = embedding_sum<T>(tape, {{.table = hidden, .ids = indices}});
  x = gelu(tape, linear(tape, x, tape.parameter(head_dense_.weight), tape.parameter(head_dense_.bias)));
  x = layer_norm(tape, x, tape.parameter(head_norm_.weight), tape.parameter(head_norm_.bias), config_.layer_norm_eps);
  return linear(tape, x, tape.parameter(word_embeddings_), tape.parameter(head_bias_));
}

StepResult RobertaForMaskedLm::train_step(const BatchView& rows, const float* weights, ReplicaContext& context) const {
  auto& workspace = static_cast<RobertaWorkspace&>(*context.workspace);
  const DropoutKey key{.seed = context.seed, .batch = context.batch};
  workspace.labelled.collect(rows.feature("labels").values<int32_t>());
  Tape<float>& tape = workspace.tape;
  tape.begin(layout_, weights, {.values = context.gradients.data(), .listener = context.listener});
  const Tensor<float> hidden = encode(tape, RobertaInput::of(rows), &key).back();
  const SummedLoss<float> loss =
      cross_entropy(tape, logits(tape, hidden, workspace.labelled.indices), workspace.labelled.labels);
  const auto scale = static_cast<float>(context.loss_scale);
  tape.backward(loss.tensor, {&scale, 1}, context.trainable);
  return {.sum_loss = loss.sum, .weight = static_cast<double>(loss.num_labels)};
}

StepResult RobertaForMaskedLm::evaluate(const BatchView& rows, const float* weights, Workspace& replica) const {
  auto& workspace = static_cast<RobertaWorkspace&>(replica);
  workspace.labelled.collect(rows.feature("labels").values<int32_t>());
  Tape<float>& tape = workspace.tape;
  tape.begin(layout_, weights);
  const Tensor<float> hidden = encode(tape, RobertaInput::of(rows)).back();
  const SummedLoss<float> loss =
      cross_entropy(tape, logits(tape, hidden, workspace.labelled.indices), workspace.labelled.labels);
  return {.sum_loss = loss.sum, .weight = static_cast<double>(loss.num_labels)};
}

Predictions RobertaForMaskedLm::predict(const BatchView& rows, const float* weights, Workspace& replica) const {
  auto& workspace = static_cast<RobertaWorkspace&>(replica);
  const FeatureView& labels = rows.feature("labels");
  workspace.labelled.collect(labels.values<int32_t>());
  Tape<float>& tape = workspace.tape;
  tape.begin(layout_, weights);
  const Tensor<float> hidden = encode(tape, RobertaInput::of(rows)).back();
  const Tensor<float> scores = logits(tape, hidden, workspace.labelled.indices);
  std::vector<int32_t> ids(labels.values<int32_t>().size(), kNoLabel);
  for (int64_t i = 0; i < scores.rows(); ++i) {
    const float* row = scores.values + i * scores.columns();
    const float* best = std::max_element(row, row + scores.columns());
    ids[static_cast<size_t>(workspace.labelled.indices[static_cast<size_t>(i)])] = static_cast<int32_t>(best - row);
  }
  const SummedLoss<float> loss = cross_entropy(tape, scores, workspace.labelled.labels);
  return {.rows = rows.rows(),
          .columns = {{.name = "ids", .row_shape = {labels.row_size()}, .values = std::move(ids)}},
          .result = {.sum_loss = loss.sum, .weight = static_cast<double>(loss.num_labels)}};
}

template std::vector<Tensor<float>> RobertaForMaskedLm::encode(Tape<float>&, const RobertaInput&,
                                                               const DropoutKey*) const;
template std::vector<Tensor<double>> RobertaForMaskedLm::encode(Tape<double>&, const RobertaInput&,
                                                                const DropoutKey*) const;
template Tensor<float> RobertaForMaskedLm::logits(Tape<float>&, const Tensor<float>&, std::span<const int32_t>) const;
template Tensor<double> RobertaForMaskedLm::logits(Tape<double>&, const Tensor<double>&,
                                                   std::span<const int32_t>) const;

}  // namespace millrace

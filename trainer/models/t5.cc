#include "millrace/trainer/models/t5.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/random/counter_rng.h"
#include "millrace/trainer/models/config_limits.h"
#include "millrace/trainer/models/labelled_positions.h"
#include "millrace/trainer/models/named_activation.h"
#include "millrace/trainer/models/normal_weights.h"
#include "millrace/trainer/tensor/add.h"
#include "millrace/trainer/tensor/attention.h"
#include "millrace/trainer/tensor/cross_entropy.h"
#include "millrace/trainer/tensor/dropout.h"
#include "millrace/trainer/tensor/embedding.h"
#include "millrace/trainer/tensor/linear.h"
#include "millrace/trainer/tensor/relative_position_bias.h"
#include "millrace/trainer/tensor/rms_norm.h"
#include "millrace/trainer/tensor/scale.h"

namespace millrace {
namespace {

constexpr int64_t kPredictedTokens = 20;  // as transformers generates when nobody says how many

constexpr const char* kTokenColumn = "token";

constexpr std::string_view kGated = "gated-";

// In these two, as the first field has it where the others say the same, so that they change no text.
std::string feed_forward_text(const T5Config& config) {
  const T5Config plain{.feed_forward_proj = config.feed_forward_proj};
  if (config.activation() == plain.activation() && config.gated() == plain.gated()) return config.feed_forward_proj;
  return fmt::format("{} with dense_act_fn={} and is_gated_act={}", config.feed_forward_proj, config.activation(),
                     config.gated());
}

std::string output_text(const T5Config& config) {
  const bool usual = config.scales_outputs() == config.tie_word_embeddings;
  return fmt::format("{}{}", config.tie_word_embeddings,
                     usual ? "" : fmt::format(" with scale_decoder_outputs={}", config.scales_outputs()));
}

// The places of dropout in a stack: its embeddings, its end, then five for each block. The decoder's come far after the
// encoder's.
enum class BlockDropout : uint64_t { kAttention, kAttentionOutput, kCross, kCrossOutput, kInner, kOutput };
constexpr uint64_t kEmbeddingDropout = 0;
constexpr uint64_t kFinalDropout = 1;
constexpr uint64_t kPlacesOfBlock = 6;
constexpr uint64_t kDecoderPlaces = uint64_t{1} << 32U;
uint64_t place_of(size_t block, BlockDropout dropout) {
  return 2 + kPlacesOfBlock * block + static_cast<uint64_t>(dropout);
}

std::span<const int64_t> mask_of(const BatchView& rows, std::string_view name, size_t count) {
  const FeatureView* feature = rows.find(name);
  if (feature == nullptr) return {};
  const std::span<const int64_t> mask = feature->values<int64_t>();
  if (mask.size() == count) return mask;
  throw ErrorException(ErrorCode::kWrongShape, fmt::format("{} has {} values for {} ids", name, mask.size(), count));
}

// Whether the first label of every row is one, and its place in the decoder is not masked.
bool reads_first_labels(const BatchView& rows, const FeatureView& labels) {
  const std::span<const int32_t> values = labels.values<int32_t>();
  const std::span<const int64_t> mask = mask_of(rows, "decoder_attention_mask", values.size());
  for (size_t i = 0; i < values.size(); i += static_cast<size_t>(labels.row_size())) {
    if (values[i] == kNoLabel || (!mask.empty() && mask[i] == 0)) return false;
  }
  return true;
}

}  // namespace

std::string T5Config::activation() const {
  if (dense_act_fn) return *dense_act_fn;
  if (feed_forward_proj == "gated-gelu") return "gelu_new";
  return feed_forward_proj.starts_with(kGated) ? feed_forward_proj.substr(kGated.size()) : feed_forward_proj;
}

bool T5Config::gated() const { return is_gated_act.value_or(feed_forward_proj.starts_with(kGated)); }

void T5Config::check() const {
  check_size("vocab_size", vocab_size);
  check_size("d_model", d_model);
  check_size("d_kv", d_kv);
  check_size("d_ff", d_ff);
  check_layers("num_layers", num_layers);
  check_layers("num_decoder_layers", num_decoder_layers);
  check_size("num_heads", num_heads);
  check_size("relative_attention_num_buckets", relative_attention_num_buckets, 4);
  check_size("relative_attention_max_distance", relative_attention_max_distance,
             relative_attention_num_buckets / 2 + 1);
  check_token("pad_token_id", pad_token_id, vocab_size);
  check_token("eos_token_id", eos_token_id, vocab_size);
  check_token("decoder_start_token_id", decoder_start_token_id, vocab_size);
  check_probability("dropout_rate", dropout_rate);
  check_positive("layer_norm_epsilon", layer_norm_epsilon);
  check_not_negative("initializer_factor", initializer_factor);
  (void)activation_named(dense_act_fn ? "dense_act_fn" : "feed_forward_proj", activation());
}

T5Input T5Input::of(const BatchView& rows) {
  const FeatureView& ids = rows.feature("input_ids");
  const std::span<const int32_t> values = ids.values<int32_t>();
  return {.rows = rows.rows(),
          .length = ids.row_size(),
          .first_row = rows.first_row(),
          .ids = values,
          .attention_mask = mask_of(rows, "attention_mask", values.size())};
}

T5ForConditionalGeneration::T5ForConditionalGeneration(T5Config config, int64_t bucket_bytes)
    : config_(std::move(config)) {
  config_.check();
  activation_ = activation_named("feed_forward_proj", config_.activation());
  embeddings_ = layout_.add("shared.weight", {config_.vocab_size, config_.d_model});
  encoder_ = add_stack("encoder", config_.num_layers, false);
  decoder_ = add_stack("decoder", config_.num_decoder_layers, true);
  output_matrix_ =
      config_.tie_word_embeddings ? embeddings_ : layout_.add("lm_head.weight", {config_.vocab_size, config_.d_model});
  layout_.finish(bucket_bytes);
}

T5ForConditionalGeneration::Stack T5ForConditionalGeneration::add_stack(const std::string& name, int64_t num_blocks,
                                                                        bool decoder) {
  Stack stack;
  for (int64_t i = 0; i < num_blocks; ++i) {
    const auto layer = [&](int number) { return fmt::format("{}.block.{}.layer.{}.", name, i, number); };
    Block block;
    block.self = add_attention(layer(0), "SelfAttention");
    if (i == 0) {
      stack.position_table = layout_.add(layer(0) + "SelfAttention.relative_attention_bias.weight",
                                         {config_.relative_attention_num_buckets, config_.num_heads});
    }
    if (decoder) block.cross = add_attention(layer(1), "EncDecAttention");
    const std::string last = layer(decoder ? 2 : 1);
    block.feed_forward_norm = layout_.add(last + "layer_norm.weight", {config_.d_model});
    const std::string dense = last + "DenseReluDense.";
    const bool gated = config_.gated();
    block.in = layout_.add(dense + (gated ? "wi_0.weight" : "wi.weight"), {config_.d_ff, config_.d_model});
    if (gated) block.gate = layout_.add(dense + "wi_1.weight", {config_.d_ff, config_.d_model});
    block.out = layout_.add(dense + "wo.weight", {config_.d_model, config_.d_ff});
    stack.blocks.push_back(block);
  }
  stack.final_norm = layout_.add(name + ".final_layer_norm.weight", {config_.d_model});
  return stack;
}

T5ForConditionalGeneration::Attention T5ForConditionalGeneration::add_attention(const std::string& layer,
                                                                                const std::string& name) {
  const int64_t inner = config_.num_heads * config_.d_kv;
  Attention attention;
  attention.norm = layout_.add(layer + "layer_norm.weight", {config_.d_model});
  attention.query = layout_.add(layer + name + ".q.weight", {inner, config_.d_model});
  attention.key = layout_.add(layer + name + ".k.weight", {inner, config_.d_model});
  attention.value = layout_.add(layer + name + ".v.weight", {inner, config_.d_model});
  attention.output = layout_.add(layer + name + ".o.weight", {config_.d_model, inner});
  return attention;
}

double T5ForConditionalGeneration::deviation(const std::string& name) const {
  const auto root = [](int64_t count) { return 1 / std::sqrt(static_cast<double>(count)); };
  if (name == "shared.weight" || name == "lm_head.weight") return 1;
  if (name.ends_with(".q.weight")) return root(config_.d_model * config_.d_kv);
  if (name.ends_with(".o.weight")) return root(config_.num_heads * config_.d_kv);
  if (name.ends_with(".wo.weight")) return root(config_.d_ff);
  return root(config_.d_model);  // keys, values, the first product of a feed-forward block, relative positions
}

void T5ForConditionalGeneration::initialize(std::span<float> weights, uint64_t seed) const {
  const CounterRng rng(seed, operator_id("initialize"));
  const std::span<const Parameter> parameters = layout_.parameters();
  for (size_t id = 0; id < parameters.size(); ++id) {
    const Parameter& parameter = parameters[id];
    const std::span<float> values =
        weights.subspan(static_cast<size_t>(parameter.offset), static_cast<size_t>(parameter.size));
    if (parameter.shape.size() == 1) {
      std::fill(values.begin(), values.end(), static_cast<float>(config_.initializer_factor));
    } else {
      fill_normal(rng, id, config_.initializer_factor * deviation(parameter.name), values);
    }
  }
}

// One way through a stack.
template <typename T>
class T5ForConditionalGeneration::Pass {
 public:
  // `places`: where the stack's dropouts begin.
  Pass(const T5ForConditionalGeneration& model, Tape<T>& tape, const T5Input& input, const DropoutKey* dropout,
       uint64_t places)
      : model_(model), config_(model.config_), tape_(tape), input_(input), dropout_(dropout), places_(places) {}

  Tensor<T> embed(std::span<const int32_t> ids) {
    const Tensor<T> table = tape_.parameter(model_.embeddings_);
    return dropped(embedding_sum<T>(tape_, {{.table = table, .ids = ids}}), kEmbeddingDropout);
  }
  Tensor<T> position_bias(const Stack& stack, int64_t length, bool bidirectional) {
    return relative_position_bias(tape_, tape_.parameter(stack.position_table),
                                  {.queries = length,
                                   .keys = length,
                                   .bidirectional = bidirectional,
                                   .max_distance = config_.relative_attention_max_distance});
  }
  Tensor<T> self_attention(const Block& block, size_t i, const Tensor<T>& hidden, AttentionOptions<T> options) {
    options.dropout = mask(place_of(i, BlockDropout::kAttention));
    const Tensor<T> x = norm(hidden, block.self.norm);
    return attend(block.self, hidden, x, x, options, place_of(i, BlockDropout::kAttentionOutput));
  }
  Tensor<T> cross_attention(const Block& block, size_t i, const Tensor<T>& hidden, const Tensor<T>& encoded) {
    AttentionOptions<T> options{.dropout = mask(place_of(i, BlockDropout::kCross)), .key_mask = input_.attention_mask};
    return attend(*block.cross, hidden, norm(hidden, block.cross->norm), encoded, options,
                  place_of(i, BlockDropout::kCrossOutput));
  }
  Tensor<T> feed_forward_block(const Block& block, size_t i, const Tensor<T>& hidden) {
    FeedForwardWeights<T> weights{.in = tape_.parameter(block.in), .out = tape_.parameter(block.out)};
    if (block.gate) weights.gate = tape_.parameter(*block.gate);
    const Tensor<T> y = feed_forward(tape_, norm(hidden, block.feed_forward_norm), weights,
                                     {.activation = model_.activation_,
                                      .dropout = mask(place_of(i, BlockDropout::kInner)),
                                      .batch_rows = input_.rows});
    return add(tape_, hidden, dropped(y, place_of(i, BlockDropout::kOutput)));
  }
  Tensor<T> finish(const Stack& stack, const Tensor<T>& hidden) {
    return dropped(norm(hidden, stack.final_norm), kFinalDropout);
  }

 private:
  DropoutMask mask(uint64_t place) const {
    if (dropout_ == nullptr) return {};
    return {config_.dropout_rate, dropout_->seed, dropout_->batch, dropout_->call << 40U | (places_ + place),
            input_.first_row};
  }
  Tensor<T> dropped(const Tensor<T>& x, uint64_t place) { return dropout(tape_, x, input_.rows, mask(place)); }
  Tensor<T> norm(const Tensor<T>& x, int gamma) {
    return rms_norm(tape_, x, tape_.parameter(gamma), config_.layer_norm_epsilon);
  }
  Tensor<T> attend(const Attention& weights, const Tensor<T>& hidden, const Tensor<T>& queries, const Tensor<T>& keys,
                   AttentionOptions<T> options, uint64_t output_place) {
    options.batch_rows = input_.rows;
    options.heads = config_.num_heads;
    options.scale = 1;
    const auto dense = [&](const Tensor<T>& x, int weight) { return linear(tape_, x, tape_.parameter(weight)); };
    const Tensor<T> context =
        attention(tape_, dense(queries, weights.query), dense(keys, weights.key), dense(keys, weights.value), options);
    return add(tape_, hidden, dropped(dense(context, weights.output), output_place));
  }

  const T5ForConditionalGeneration& model_;
  const T5Config& config_;
  Tape<T>& tape_;
  const T5Input& input_;
  const DropoutKey* dropout_;
  uint64_t places_;
};

template <typename T>
std::vector<Tensor<T>> T5ForConditionalGeneration::encode(Tape<T>& tape, const T5Input& input,
                                                          const DropoutKey* dropout) const {
  Pass<T> pass(*this, tape, input, dropout, 0);
  std::vector<Tensor<T>> states = {pass.embed(input.ids)};
  const Tensor<T> bias = pass.position_bias(encoder_, input.length, true);
  for (size_t i = 0; i < encoder_.blocks.size(); ++i) {
    const Block& block = encoder_.blocks[i];
    const Tensor<T> hidden =
        pass.self_attention(block, i, states.back(), {.key_mask = input.attention_mask, .bias = bias});
    states.push_back(pass.feed_forward_block(block, i, hidden));
  }
  states.back() = pass.finish(encoder_, states.back());
  return states;
}

template <typename T>
std::vector<Tensor<T>> T5ForConditionalGeneration::decode(Tape<T>& tape, const Tensor<T>& encoded, const T5Input& input,
                                                          const T5DecoderInput& decoder_input,
                                                          const DropoutKey* dropout) const {
  Pass<T> pass(*this, tape, input, dropout, kDecoderPlaces);
  std::vector<Tensor<T>> states = {pass.embed(decoder_input.ids)};
  const Tensor<T> bias = pass.position_bias(decoder_, decoder_input.length, false);
  for (size_t i = 0; i < decoder_.blocks.size(); ++i) {
    const Block& block = decoder_.blocks[i];
    Tensor<T> hidden = pass.self_attention(block, i, states.back(),
                                           {.key_mask = decoder_input.attention_mask, .causal = true, .bias = bias});
    hidden = pass.cross_attention(block, i, hidden, encoded);
    states.push_back(pass.feed_forward_block(block, i, hidden));
  }
  states.back() = pass.finish(decoder_, states.back());
  return states;
}

template <typename T>
Tensor<T> T5ForConditionalGeneration::logits(Tape<T>& tape, const Tensor<T>& hidden,
                                             std::span<const int32_t> indices) const {
  Tensor<T> x = embedding_sum<T>(tape, {{.table = hidden, .ids = indices}});
  if (config_.scales_outputs()) x = scale(tape, x, 1 / std::sqrt(static_cast<double>(config_.d_model)));
  return linear(tape, x, tape.parameter(output_matrix_));
}

std::vector<int32_t> T5ForConditionalGeneration::shift_right(std::span<const int32_t> labels, int64_t length) const {
  std::vector<int32_t> ids(labels.size());
  for (size_t i = 0; i < labels.size(); ++i) {
    if (i % static_cast<size_t>(length) == 0) {
      ids[i] = config_.decoder_start_token_id;
    } else {
      ids[i] = labels[i - 1] == kNoLabel ? config_.pad_token_id : labels[i - 1];
    }
  }
  return ids;
}

template <typename T>
ForwardResult<T> T5ForConditionalGeneration::run(ForwardPass<T>& pass) const {
  Tape<T>& tape = pass.tape();
  const T5Input input = T5Input::of(pass.rows());
  const FeatureView& labels = pass.rows().feature("labels");
  LabelledPositions labelled;
  labelled.collect(labels.values<int32_t>());
  const auto ids = pass.keep(shift_right(labels.values<int32_t>(), labels.row_size()));
  const T5DecoderInput decoder_input{.length = labels.row_size(),
                                     .ids = ids,
                                     .attention_mask = mask_of(pass.rows(), "decoder_attention_mask", ids.size())};
  const Tensor<T> encoded = encode(tape, input, pass.dropout_key()).back();
  const Tensor<T> hidden = decode(tape, encoded, input, decoder_input, pass.dropout_key()).back();
  const Tensor<T> scores = logits(tape, hidden, pass.keep(labelled.indices));
  ForwardResult<T> result;
  if (pass.predicts()) {
    const std::vector<int32_t> tokens = largest_in_rows(scores);
    std::vector<int32_t> first;
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (labelled.indices[i] % labels.row_size() == 0) first.push_back(tokens[i]);
    }
    result.columns = {{.name = kTokenColumn, .row_shape = {}, .values = std::move(first)}};
  }
  result.losses = {ForwardLoss<T>(cross_entropy(tape, scores, pass.keep(labelled.labels)))};
  return result;
}

std::string T5ForConditionalGeneration::describe() const {
  return fmt::format(
      "t5(num_heads={}, d_kv={}, feed_forward_proj={}, relative_attention_max_distance={}, tie_word_embeddings={}, "
      "dropout_rate={}, layer_norm_epsilon={}, pad_token_id={}, decoder_start_token_id={})",
      config_.num_heads, config_.d_kv, feed_forward_text(config_), config_.relative_attention_max_distance,
      output_text(config_), config_.dropout_rate, config_.layer_norm_epsilon, config_.pad_token_id,
      config_.decoder_start_token_id);
}

Predictions T5ForConditionalGeneration::predict(const BatchView& rows, const float* weights,
                                                Workspace& workspace) const {
  Predictions predictions{.rows = rows.rows()};
  int64_t length = kPredictedTokens;
  if (const FeatureView* labels = rows.find("labels")) {
    length = labels->row_size();
    predictions.result = evaluate(rows, weights, workspace);
  }
  predictions.columns.push_back(
      {.name = "ids", .row_shape = {length}, .values = generate(T5Input::of(rows), length, weights, workspace)});
  return predictions;
}

Predictions T5ForConditionalGeneration::predict_first(const BatchView& rows, const float* weights,
                                                      Workspace& workspace) const {
  const FeatureView* const labels = rows.find("labels");
  if (labels != nullptr && reads_first_labels(rows, *labels)) return TapeModel::predict(rows, weights, workspace);
  Predictions predictions{.rows = rows.rows()};
  if (labels != nullptr) predictions.result = evaluate(rows, weights, workspace);
  predictions.columns.push_back({.name = kTokenColumn,
                                 .row_shape = {},
                                 .values = generate(T5Input::of(rows), /*max_length=*/1, weights, workspace)});
  return predictions;
}

std::vector<int32_t> T5ForConditionalGeneration::generate(const T5Input& input, int64_t max_length,
                                                          const float* weights, Workspace& replica) const {
  const auto rows = static_cast<size_t>(input.rows);
  std::vector<int32_t> result(rows * static_cast<size_t>(max_length), config_.pad_token_id);
  std::vector<bool> ended(rows, false);
  Tape<float>& tape = tape_of(replica);
  tape.begin(layout_, weights);
  const Tensor<float> encoded = encode(tape, input).back();
  for (int64_t length = 1; length <= max_length; ++length) {
    std::vector<int32_t> ids;
    std::vector<int32_t> last;
    for (size_t row = 0; row < rows; ++row) {
      ids.push_back(config_.decoder_start_token_id);
      const auto begin = result.begin() + static_cast<ptrdiff_t>(row) * max_length;
      ids.insert(ids.end(), begin, begin + length - 1);
      last.push_back(static_cast<int32_t>(ids.size()) - 1);
    }
    const Tensor<float> hidden = decode(tape, encoded, input, {.length = length, .ids = ids}).back();
    const Tensor<float> scores = logits(tape, hidden, last);
    for (size_t row = 0; row < rows; ++row) {
      if (ended[row]) continue;
      const float* begin = scores.values + static_cast<int64_t>(row) * config_.vocab_size;
      const auto best = static_cast<int32_t>(std::max_element(begin, begin + config_.vocab_size) - begin);
      result[row * static_cast<size_t>(max_length) + static_cast<size_t>(length) - 1] = best;
      ended[row] = best == config_.eos_token_id;
    }
    if (std::find(ended.begin(), ended.end(), false) == ended.end()) break;
  }
  return result;
}

template std::vector<Tensor<float>> T5ForConditionalGeneration::encode(Tape<float>&, const T5Input&,
                                                                       const DropoutKey*) const;
template std::vector<Tensor<double>> T5ForConditionalGeneration::encode(Tape<double>&, const T5Input&,
                                                                        const DropoutKey*) const;
template std::vector<Tensor<float>> T5ForConditionalGeneration::decode(Tape<float>&, const Tensor<float>&,
                                                                       const T5Input&, const T5DecoderInput&,
                                                                       const DropoutKey*) const;
template std::vector<Tensor<double>> T5ForConditionalGeneration::decode(Tape<double>&, const Tensor<double>&,
                                                                        const T5Input&, const T5DecoderInput&,
                                                                        const DropoutKey*) const;
template Tensor<float> T5ForConditionalGeneration::logits(Tape<float>&, const Tensor<float>&,
                                                          std::span<const int32_t>) const;
template Tensor<double> T5ForConditionalGeneration::logits(Tape<double>&, const Tensor<double>&,
                                                           std::span<const int32_t>) const;

}  // namespace millrace

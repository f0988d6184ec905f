#include "millrace/trainer/models/t5_pretrained.h"

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "millrace/formats/safetensors/writer.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/trainer/checkpoint/parameter_file.h"
#include "millrace/trainer/models/config_file.h"
#include "millrace/trainer/models/weight_files.h"

namespace millrace {
namespace {

constexpr const char* kWeights = "model.safetensors";
constexpr std::array<std::string_view, 2> kFamilies = {"t5", "mt5"};
constexpr const char* kEmbeddings = "shared.weight";
constexpr const char* kEncoderEmbeddings = "encoder.embed_tokens.weight";
constexpr const char* kDecoderEmbeddings = "decoder.embed_tokens.weight";
constexpr const char* kOutputMatrix = "lm_head.weight";
// Published files of version 1.0 (t5-small, t5-base, ...) hold this table, which no layer has ever read.
constexpr const char* kUnusedTable = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight";

// Of a config.json without the field.
T5Config mt5_defaults() {
  return {.vocab_size = 250112,
          .d_ff = 1024,
          .num_layers = 8,
          .num_decoder_layers = 8,
          .num_heads = 6,
          .feed_forward_proj = "gated-gelu",
          .tie_word_embeddings = false,
          .model_type = "mt5"};
}

// As in transformers the two fields that are made of feed_forward_proj count where they are given: T5Config sets what
// it does not take by name after what it makes itself.
void read_feed_forward(const ConfigFile& file, T5Config& config) {
  file.read("feed_forward_proj", config.feed_forward_proj);
  std::string activation = config.activation();
  bool gated = config.gated();
  file.read("dense_act_fn", activation);
  file.read("is_gated_act", gated);
  if (activation != config.activation()) config.dense_act_fn = activation;
  if (gated != config.gated()) config.is_gated_act = gated;
}

// transformers 5 says of every T5 that its embeddings are tied, and ties them where the file has no output matrix of
// its own. Whether outputs are scaled stands in the config.
void untie_from_another_matrix(const std::string& directory, T5Config& config) {
  if (!config.tie_word_embeddings || !WeightFiles::are_in(directory)) return;
  const WeightFiles files(directory);
  const StoredTensor* matrix = files.find(kOutputMatrix);
  const StoredTensor* embeddings = files.find(kEmbeddings);
  for (const char* copy : {kEncoderEmbeddings, kDecoderEmbeddings}) {
    if (embeddings == nullptr) embeddings = files.find(copy);
  }
  if (matrix == nullptr || embeddings == nullptr || is_equal(*matrix, *embeddings)) return;
  config.scale_decoder_outputs = config.scales_outputs();
  config.tie_word_embeddings = false;
}

}  // namespace

T5Config load_t5_config(const std::string& directory, const PretrainedOptions& options) {
  const ConfigFile file(directory);
  const std::string family = file.need_one_of("model_type", kFamilies);
  T5Config config = family == "mt5" ? mt5_defaults() : T5Config{};
  config.model_type = family;
  file.read("vocab_size", config.vocab_size);
  file.read("d_model", config.d_model);
  file.read("d_kv", config.d_kv);
  file.read("d_ff", config.d_ff);
  file.read("num_layers", config.num_layers);
  config.num_decoder_layers = config.num_layers;
  file.read("num_decoder_layers", config.num_decoder_layers);
  file.read("num_heads", config.num_heads);
  file.read("relative_attention_num_buckets", config.relative_attention_num_buckets);
  file.read("relative_attention_max_distance", config.relative_attention_max_distance);
  read_feed_forward(file, config);
  file.read("tie_word_embeddings", config.tie_word_embeddings);
  bool scales_outputs = config.scales_outputs();
  file.read("scale_decoder_outputs", scales_outputs);
  if (scales_outputs != config.scales_outputs()) config.scale_decoder_outputs = scales_outputs;
  file.read("dropout_rate", config.dropout_rate);
  file.read("layer_norm_epsilon", config.layer_norm_epsilon);
  file.read("initializer_factor", config.initializer_factor);
  file.read("pad_token_id", config.pad_token_id);
  file.read("eos_token_id", config.eos_token_id);
  config.decoder_start_token_id = config.pad_token_id;
  file.read("decoder_start_token_id", config.decoder_start_token_id);
  file.need("is_decoder", false);
  file.refuse_unknown(options);
  untie_from_another_matrix(directory, config);
  file.check(config);
  return config;
}

FlatBuffer load_t5_weights(const std::string& directory, const T5ForConditionalGeneration& model) {
  const WeightFiles files(directory);
  std::vector<TiedCopy> copies = {{kEncoderEmbeddings, kEmbeddings}, {kDecoderEmbeddings, kEmbeddings}};
  if (model.config().tie_word_embeddings) copies.push_back({kOutputMatrix, kEmbeddings});
  const std::string unused = kUnusedTable;
  return read_weights(files.tensors(), files.path(), model.layout(), {.copies = copies, .ignored = {&unused, 1}});
}

void save_t5_config(const std::string& directory, const T5Config& config) {
  nlohmann::ordered_json json = {
      {"architectures", {config.model_type == "mt5" ? "MT5ForConditionalGeneration" : "T5ForConditionalGeneration"}},
      {"classifier_dropout", 0.0},
      {"d_ff", config.d_ff},
      {"d_kv", config.d_kv},
      {"d_model", config.d_model},
      {"decoder_start_token_id", config.decoder_start_token_id},
      {"dense_act_fn", config.activation()},
      {"dropout_rate", config.dropout_rate},
      {"eos_token_id", config.eos_token_id},
      {"feed_forward_proj", config.feed_forward_proj},
      {"initializer_factor", config.initializer_factor},
      {"is_encoder_decoder", true},
      {"is_gated_act", config.gated()},
      {"layer_norm_epsilon", config.layer_norm_epsilon},
      {"model_type", config.model_type},
      {"num_decoder_layers", config.num_decoder_layers},
      {"num_heads", config.num_heads},
      {"num_layers", config.num_layers},
      {"pad_token_id", config.pad_token_id},
      {"relative_attention_max_distance", config.relative_attention_max_distance},
      {"relative_attention_num_buckets", config.relative_attention_num_buckets},
      {"torch_dtype", "float32"},
      {"vocab_size", config.vocab_size}};
  if (!config.tie_word_embeddings || config.model_type == "mt5") {
    json["tie_word_embeddings"] = config.tie_word_embeddings;
  }
  if (config.scales_outputs() != config.tie_word_embeddings) json["scale_decoder_outputs"] = config.scales_outputs();
  write_atomically(model_file(directory, "config.json"), json.dump(2) + "\n");
}

void save_t5_weights(const std::string& directory, const T5ForConditionalGeneration& model,
                     std::span<const float> weights) {
  write_safetensors(model_file(directory, kWeights), parameter_tensors(model.layout(), weights), {{"format", "pt"}});
}

}  // namespace millrace

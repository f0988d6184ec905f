#include "millrace/trainer/models/roberta_pretrained.h"

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "millrace/formats/safetensors/writer.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/trainer/checkpoint/parameter_file.h"
#include "millrace/trainer/models/config_file.h"
#include "millrace/trainer/models/named_activation.h"
#include "millrace/trainer/models/weight_files.h"

namespace millrace {
namespace {

constexpr std::array<std::string_view, 3> kFamilies = {"roberta", "xlm-roberta", "camembert"};

constexpr const char* kPrefix = "roberta.";
constexpr const char* kDecoderWeight = "lm_head.decoder.weight";
constexpr const char* kWordEmbeddings = "roberta.embeddings.word_embeddings.weight";
// What published files hold beside the weights: a constant that old versions wrote, and the layer after the encoder
// that a masked language model does not have.
constexpr const char* kPositionIds = "roberta.embeddings.position_ids";
constexpr const char* kPoolerWeight = "roberta.pooler.dense.weight";
constexpr const char* kPoolerBias = "roberta.pooler.dense.bias";

std::string architecture(std::string_view model_type) {
  if (model_type == "xlm-roberta") return "XLMRobertaForMaskedLM";
  return model_type == "camembert" ? "CamembertForMaskedLM" : "RobertaForMaskedLM";
}

}  // namespace

RobertaConfig load_roberta_config(const std::string& directory, const PretrainedOptions& options) {
  const ConfigFile file(directory);
  RobertaConfig config{.max_position_embeddings = 512, .type_vocab_size = 2, .layer_norm_eps = 1e-12};
  config.model_type = file.need_one_of("model_type", kFamilies);
  if (config.model_type != "roberta") config.vocab_size = 30522;
  file.need("position_embedding_type", "absolute");
  file.need("tie_word_embeddings", true);
  file.need("is_decoder", false);
  file.read("vocab_size", config.vocab_size);
  file.read("hidden_size", config.hidden_size);
  file.read("num_hidden_layers", config.num_hidden_layers);
  file.read("num_attention_heads", config.num_attention_heads);
  file.read("intermediate_size", config.intermediate_size);
  file.read_activation("hidden_act", config.hidden_act);
  file.read("max_position_embeddings", config.max_position_embeddings);
  file.read("type_vocab_size", config.type_vocab_size);
  file.read("pad_token_id", config.pad_token_id);
  file.read("bos_token_id", config.bos_token_id);
  file.read("eos_token_id", config.eos_token_id);
  file.read("layer_norm_eps", config.layer_norm_eps);
  file.read("hidden_dropout_prob", config.hidden_dropout_prob);
  file.read("attention_probs_dropout_prob", config.attention_probs_dropout_prob);
  file.read("initializer_range", config.initializer_range);
  file.refuse_unknown(options);
  file.check(config);
  return config;
}

FlatBuffer load_roberta_weights(const std::string& directory, const RobertaForMaskedLm& model) {
  const WeightFiles files(directory);
  const TiedCopy matrix{.name = kDecoderWeight, .parameter = kWordEmbeddings};
  const std::vector<std::string> ignored = {kPositionIds, kPoolerWeight, kPoolerBias};
  return read_weights(files.tensors(), files.path(), model.layout(), {.copies = {&matrix, 1}, .ignored = ignored});
}

void load_roberta_encoder(const std::string& directory, const RobertaEncoder& encoder, const ParameterLayout& layout,
                          std::span<float> weights) {
  const WeightFiles files(directory);
  ParameterLayout alone;
  const RobertaEncoder same(alone, encoder.config());
  alone.finish();
  std::vector<StoredTensor> tensors(files.tensors().begin(), files.tensors().end());
  std::vector<std::string> ignored;
  const bool bare = files.find(kWordEmbeddings) == nullptr;
  for (StoredTensor& tensor : tensors) {
    if (bare) tensor.name.insert(0, kPrefix);
    if (!alone.find(tensor.name)) ignored.push_back(tensor.name);
  }
  const FlatBuffer read = read_weights(tensors, files.path(), alone, {.ignored = ignored});
  const auto first = static_cast<size_t>(encoder.word_embeddings());
  for (size_t id = 0; id < alone.parameters().size(); ++id) {
    const Parameter& from = alone.parameters()[id];
    const Parameter& to = layout.parameters()[first + id];
    std::copy_n(read.data() + from.offset, from.size, weights.begin() + to.offset);
  }
}

void save_roberta_config(const std::string& directory, const RobertaConfig& config) {
  const nlohmann::ordered_json json = {{"architectures", {architecture(config.model_type)}},
                                       {"attention_probs_dropout_prob", config.attention_probs_dropout_prob},
                                       {"bos_token_id", config.bos_token_id},
                                       {"classifier_dropout", nullptr},
                                       {"eos_token_id", config.eos_token_id},
                                       {"hidden_act", name_of(config.hidden_act)},
                                       {"hidden_dropout_prob", config.hidden_dropout_prob},
                                       {"hidden_size", config.hidden_size},
                                       {"initializer_range", config.initializer_range},
                                       {"intermediate_size", config.intermediate_size},
                                       {"layer_norm_eps", config.layer_norm_eps},
                                       {"max_position_embeddings", config.max_position_embeddings},
                                       {"model_type", config.model_type},
                                       {"num_attention_heads", config.num_attention_heads},
                                       {"num_hidden_layers", config.num_hidden_layers},
                                       {"pad_token_id", config.pad_token_id},
                                       {"position_embedding_type", "absolute"},
                                       {"torch_dtype", "float32"},
                                       {"type_vocab_size", config.type_vocab_size},
                                       {"vocab_size", config.vocab_size}};
  write_atomically(model_file(directory, "config.json"), json.dump(2) + "\n");
}

void save_roberta_weights(const std::string& directory, const RobertaForMaskedLm& model,
                          std::span<const float> weights) {
  write_safetensors(model_file(directory, "model.safetensors"), parameter_tensors(model.layout(), weights),
                    {{"format", "pt"}});
}

}  // namespace millrace

#include "millrace/trainer/models/roberta_pretrained.h"

#include <nlohmann/json.hpp>

#include "millrace/formats/safetensors/reader.h"
#include "millrace/formats/safetensors/writer.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/trainer/checkpoint/parameter_file.h"
#include "millrace/trainer/models/config_file.h"
#include "millrace/trainer/models/named_activation.h"

namespace millrace {
namespace {

constexpr const char* kDecoderWeight = "lm_head.decoder.weight";
constexpr const char* kWordEmbeddings = "roberta.embeddings.word_embeddings.weight";
// What published files hold beside the weights: a constant that old versions wrote, and the layer after the encoder
// that a masked language model does not have.
constexpr const char* kPositionIds = "roberta.embeddings.position_ids";
constexpr const char* kPoolerWeight = "roberta.pooler.dense.weight";
constexpr const char* kPoolerBias = "roberta.pooler.dense.bias";

}  // namespace

RobertaConfig load_roberta_config(const std::string& directory) {
  const ConfigFile file(directory);
  file.need("model_type", "roberta", true);
  file.need("position_embedding_type", "absolute", false);
  file.need("tie_word_embeddings", true, false);
  file.need("is_decoder", false, false);
  RobertaConfig config;
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
  file.check(config);
  return config;
}

FlatBuffer load_roberta_weights(const std::string& directory, const RobertaForMaskedLm& model) {
  const std::string path = model_file(directory, "model.safetensors");
  const SafetensorsFile file(path);
  const TiedCopy matrix{.name = kDecoderWeight, .parameter = kWordEmbeddings};
  const std::vector<std::string> ignored = {kPositionIds, kPoolerWeight, kPoolerBias};
  return read_weights(file, path, model.layout(), {.copies = {&matrix, 1}, .ignored = ignored});
}

void save_roberta_config(const std::string& directory, const RobertaConfig& config) {
  const nlohmann::ordered_json json = {{"architectures", {"RobertaForMaskedLM"}},
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
                                       {"model_type", "roberta"},
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

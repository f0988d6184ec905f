#include "trainer/models/roberta_pretrained.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "formats/error.h"
#include "formats/safetensors/reader.h"
#include "formats/safetensors/writer.h"
#include "formats/storage/atomic_file.h"
#include "trainer/parameter_file.h"

namespace millrace {
namespace {

constexpr const char* kDecoderWeight = "lm_head.decoder.weight";
constexpr const char* kWordEmbeddings = "roberta.embeddings.word_embeddings.weight";
constexpr const char* kPositionIds = "roberta.embeddings.position_ids";  // a constant that old versions wrote

std::string path_of(const std::string& directory, const char* name) {
  return (std::filesystem::path(directory) / name).string();
}

template <typename T>
void read(const nlohmann::json& json, const char* name, T& value) {
  const auto found = json.find(name);
  if (found != json.end() && !found->is_null()) found->get_to(value);
}

// A copy of the word embeddings that some files have.
void check_tied_matrix(const SafetensorsFile& file, const std::string& path) {
  const NamedTensor* copy = file.find(kDecoderWeight);
  const NamedTensor* matrix = file.find(kWordEmbeddings);
  if (copy == nullptr || matrix == nullptr) return;
  if (copy->type == matrix->type && copy->shape == matrix->shape && std::ranges::equal(copy->bytes, matrix->bytes)) {
    return;
  }
  throw ErrorException(
      {.code = ErrorCode::kInvalidArgument,
       .message = fmt::format("{} differs from {}, to which the model ties it", kDecoderWeight, kWordEmbeddings),
       .shard = path});
}

}  // namespace

RobertaConfig load_roberta_config(const std::string& directory) {
  const std::string path = path_of(directory, "config.json");
  std::ifstream stream(path);
  if (!stream) {
    throw ErrorException({.code = ErrorCode::kIo,
                          .message = fmt::format("cannot open the file: {}", std::strerror(errno)),
                          .shard = path});
  }
  try {
    const nlohmann::json json = nlohmann::json::parse(stream);
    const auto need = [&](const char* name, const nlohmann::json& expected, bool required) {
      const auto found = json.find(name);
      if (found == json.end() ? !required : *found == expected) return;
      throw ErrorException({.code = ErrorCode::kInvalidArgument,
                            .message = fmt::format("{} is {}; only {} is known", name,
                                                   found == json.end() ? "missing" : found->dump(), expected.dump()),
                            .shard = path});
    };
    need("model_type", "roberta", true);
    need("hidden_act", "gelu", false);
    need("position_embedding_type", "absolute", false);
    need("tie_word_embeddings", true, false);
    need("is_decoder", false, false);
    RobertaConfig config;
    read(json, "vocab_size", config.vocab_size);
    read(json, "hidden_size", config.hidden_size);
    read(json, "num_hidden_layers", config.num_hidden_layers);
    read(json, "num_attention_heads", config.num_attention_heads);
    read(json, "intermediate_size", config.intermediate_size);
    read(json, "max_position_embeddings", config.max_position_embeddings);
    read(json, "type_vocab_size", config.type_vocab_size);
    read(json, "pad_token_id", config.pad_token_id);
    read(json, "bos_token_id", config.bos_token_id);
    read(json, "eos_token_id", config.eos_token_id);
    read(json, "layer_norm_eps", config.layer_norm_eps);
    read(json, "hidden_dropout_prob", config.hidden_dropout_prob);
    read(json, "attention_probs_dropout_prob", config.attention_probs_dropout_prob);
    read(json, "initializer_range", config.initializer_range);
    return config;
  } catch (const nlohmann::json::exception& error) {
    throw ErrorException({.code = ErrorCode::kParse, .message = error.what(), .shard = path});
  }
}

FlatBuffer load_roberta_weights(const std::string& directory, const RobertaForMaskedLm& model) {
  const std::string path = path_of(directory, "model.safetensors");
  const SafetensorsFile file(path);
  check_tied_matrix(file, path);
  FlatBuffer weights(model.layout().size());
  const ParameterBuffer buffer{.values = weights.span()};
  const std::vector<std::string> copies = {kDecoderWeight, kPositionIds};
  read_parameters(file, path, model.layout(), {&buffer, 1}, copies);
  return weights;
}

void save_roberta_config(const std::string& directory, const RobertaConfig& config) {
  const nlohmann::ordered_json json = {{"architectures", {"RobertaForMaskedLM"}},
                                       {"attention_probs_dropout_prob", config.attention_probs_dropout_prob},
                                       {"bos_token_id", config.bos_token_id},
                                       {"classifier_dropout", nullptr},
                                       {"eos_token_id", config.eos_token_id},
                                       {"hidden_act", "gelu"},
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
  write_atomically(path_of(directory, "config.json"), json.dump(2) + "\n");
}

void save_roberta_weights(const std::string& directory, const RobertaForMaskedLm& model,
                          std::span<const float> weights) {
  write_safetensors(path_of(directory, "model.safetensors"), parameter_tensors(model.layout(), weights),
                    {{"format", "pt"}});
}

}  // namespace millrace

#include "millrace/trainer/models/config_file.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/whole_file.h"
#include "millrace/trainer/models/named_activation.h"

namespace millrace {

std::string model_file(const std::string& directory, const char* name) {
  return (std::filesystem::path(directory) / name).string();
}

namespace {

// Fields of transformers' PretrainedConfig and of the families that are read here, which say how a model is saved,
// how text is generated, what the heads of other tasks do, or how much is kept in memory; in alphabetical order.
constexpr std::array<std::string_view, 57> kChangeNothing = {
    "architectures",
    "attn_implementation",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "cls_token_id",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "id2label",
    "is_encoder_decoder",
    "label2id",
    "length_penalty",
    "mask_token_id",
    "max_length",
    "min_length",
    "n_positions",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_labels",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "output_scores",
    "prefix",
    "problem_type",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "typical_p",
    "unk_token_id",
    "use_bfloat16",
    "use_cache",
};

bool changes_nothing(std::string_view name) { return std::ranges::binary_search(kChangeNothing, name); }

}  // namespace

ConfigFile::ConfigFile(const std::string& directory) : path_(model_file(directory, "config.json")) {
  json_ = parse_json(read_whole_file(path_), path_);
  if (!json_.is_object()) {
    throw ErrorException({.code = ErrorCode::kParse, .message = "the file is not a JSON object", .shard = path_});
  }
}

std::string ConfigFile::need_one_of(const char* name, std::span<const std::string_view> known) const {
  known_.insert(name);
  const auto found = json_.find(name);
  const bool missing = found == json_.end() || found->is_null();
  if (!missing && found->is_string() && std::ranges::find(known, found->get<std::string>()) != known.end()) {
    return found->get<std::string>();
  }
  refuse(fmt::format("{} is {}; known is {}", name, missing ? "missing" : shown_json(*found),
                     fmt::format("\"{}\"", fmt::join(known, "\", \""))));
}

void ConfigFile::need(const char* name, const nlohmann::json& expected) const {
  known_.insert(name);
  const auto found = json_.find(name);
  if (found == json_.end() || found->is_null() || *found == expected) return;
  refuse(fmt::format("{} is {}; only {} is known", name, shown_json(*found), expected.dump()));
}

void ConfigFile::refuse_unknown(const PretrainedOptions& options) const {
  constexpr size_t kMostShown = 10;
  size_t num_unknown = 0;
  std::vector<std::string> unknown;
  for (const auto& [name, value] : json_.items()) {
    const bool says_nothing = value.is_null() || value == false ||
                              (value.is_string() && value.get_ref<const std::string&>().empty()) ||
                              (value.is_structured() && value.empty());
    if (says_nothing || name.starts_with('_') || known_.contains(name) || changes_nothing(name)) continue;
    if (std::ranges::find(options.ignored_config_fields, name) != options.ignored_config_fields.end()) continue;
    if (++num_unknown <= kMostShown) unknown.push_back(fmt::format("{:.60} is {}", name, shown_json(value)));
  }
  if (num_unknown == 0) return;
  if (num_unknown > kMostShown) unknown.push_back(fmt::format("{} more", num_unknown - kMostShown));
  refuse(
      fmt::format("{}, which is not known here and may change what the model computes "
                  "(PretrainedOptions::ignored_config_fields, --ignore-config NAME: pass it over)",
                  fmt::join(unknown, "; ")));
}

void ConfigFile::read_activation(const char* name, Activation& value) const {
  std::string text = name_of(value);
  read(name, text);
  try {
    value = activation_named(name, text);
  } catch (const ErrorException& error) {
    refuse(error.error().message);
  }
}

void ConfigFile::refuse(const std::string& message) const {
  throw ErrorException({.code = ErrorCode::kInvalidArgument, .message = message, .shard = path_});
}

void ConfigFile::refuse_type(const char* name, const std::string& why) const {
  throw ErrorException({.code = ErrorCode::kParse, .message = fmt::format("{}: {}", name, why), .shard = path_});
}

}  // namespace millrace

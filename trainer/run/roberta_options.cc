#include "millrace/trainer/run/roberta_options.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "millrace/command_line/given_options.h"
#include "millrace/command_line/number_options.h"
#include "millrace/formats/safetensors/writer.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/tokenizer/special_tokens.h"
#include "millrace/trainer/checkpoint/parameter_file.h"
#include "millrace/trainer/models/config_limits.h"
#include "millrace/trainer/models/roberta_pretrained.h"
#include "millrace/trainer/run/local_copy.h"
#include "millrace/trainer/run/tokenizer_files.h"

namespace millrace {
namespace {

namespace po = boost::program_options;

constexpr int64_t kMostHidden = kMostSize / 4;  // the feed-forward layers are 4 times as wide

}  // namespace

void add_roberta_options(RobertaOptions& options, po::options_description& model) {
  // clang-format off
  model.add_options()
      ("model", po::value(&options.model), "start from the RoBERTa in this folder, in Hugging Face's layout, as "
       "train_mlm writes one; without it, from scratch with")
      ("layers", whole_number(options.layers, {1, kMostLayers}), "encoder layers")
      ("hidden", whole_number(options.hidden, {1, kMostHidden}),
       "width of the hidden states; the feed-forward layers are 4 times as wide")
      ("heads", whole_number(options.heads, {0, kMostHidden}), "attention heads; 0: hidden / 64")
      ("dropout", real_number(options.dropout, {0, 0.99}), "of hidden states and attention")
      ("initializer-range", real_number(options.initializer_range, {0, 1}),
       "standard deviation of the start weights; 0: 1 / sqrt(hidden)");
  // clang-format on
}

void take_roberta_options(RobertaOptions& options, const po::variables_map& given) {
  if (!options.model.empty()) {
    refuse_given(given, {"layers", "hidden", "heads", "dropout", "initializer-range"}, "is what --model has");
  }
  options.model = local_copy(options.model);
  if (options.heads == 0) options.heads = std::max<int64_t>(1, options.hidden / 64);
  require(options.hidden % options.heads == 0,
          fmt::format("--hidden is {}, must be a multiple of --heads, which is {}", options.hidden, options.heads));
}

RobertaTokens roberta_tokens(const Tokenizer& tokenizer, const std::string& path) {
  const SpecialTokens special = SpecialTokens::find(tokenizer, path);
  return {.file = path,
          .vocabulary_size = tokenizer.size(),
          .cls = special.id_of(tokenizer, "cls_token"),
          .sep = special.id_of(tokenizer, "sep_token"),
          .pad = special.id_of(tokenizer, "pad_token")};
}

RobertaConfig roberta_config(const RobertaOptions& options, const RobertaTokens& tokens, int64_t longest) {
  if (options.model.empty()) {
    const double range = options.initializer_range;
    return {.vocab_size = tokens.vocabulary_size,
            .hidden_size = options.hidden,
            .num_hidden_layers = options.layers,
            .num_attention_heads = options.heads,
            .intermediate_size = 4 * options.hidden,
            .max_position_embeddings = longest + tokens.pad + 1,
            .pad_token_id = tokens.pad,
            .bos_token_id = tokens.cls,
            .eos_token_id = tokens.sep,
            .hidden_dropout_prob = options.dropout,
            .attention_probs_dropout_prob = options.dropout,
            .initializer_range = range > 0 ? range : 1 / std::sqrt(static_cast<double>(options.hidden))};
  }
  RobertaConfig config = load_roberta_config(options.model);
  const int64_t positions = config.max_position_embeddings - config.pad_token_id - 1;
  require(config.vocab_size >= tokens.vocabulary_size,
          fmt::format("{} is a model of {} tokens, the tokenizer has {}", options.model, config.vocab_size,
                      tokens.vocabulary_size));
  if (!tokens.file.empty()) check_tokenizer_of(options.model, config.vocab_size, tokens.file);
  require(config.pad_token_id == tokens.pad, fmt::format("{} is a model whose padding is {}, the tokenizer's is {}",
                                                         options.model, config.pad_token_id, tokens.pad));
  require(positions >= longest,
          fmt::format("{} is a model for {} tokens, rows have {}", options.model, positions, longest));
  return config;
}

RunModel written_with_roberta(const Model& model, const RobertaConfig& config, const std::string& tokenizer_file,
                              int64_t longest, const std::map<std::string, std::string>& files) {
  return {
      .model = model,
      .save_description =
          [=](const std::string& folder) {
            save_roberta_config(folder, config);
            save_tokenizer_files(folder, tokenizer_file, longest);
            for (const auto& [name, text] : files) write_atomically(fmt::format("{}/{}", folder, name), text);
          },
      .save_weights =
          [&layout = model.layout()](const std::string& folder, std::span<const float> weights) {
            write_safetensors(folder + "/model.safetensors", parameter_tensors(layout, weights), {{"format", "pt"}});
          }};
}

}  // namespace millrace

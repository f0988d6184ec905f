#include "millrace/trainer/run/t5_options.h"

#include <fmt/format.h>

#include "millrace/command_line/given_options.h"
#include "millrace/command_line/number_options.h"
#include "millrace/formats/error.h"
#include "millrace/trainer/models/config_limits.h"
#include "millrace/trainer/models/t5_pretrained.h"
#include "millrace/trainer/run/local_copy.h"
#include "millrace/trainer/run/tokenizer_files.h"

namespace millrace {

void add_t5_options(T5Options& options, boost::program_options::options_description& model) {
  namespace po = boost::program_options;
  T5Config& sizes = options.sizes;
  // clang-format off
  model.add_options()
      ("model", po::value(&options.model),
       "folder of a T5 in Hugging Face's layout that the training starts from, of the tokenizer that the rows were written "
       "with; not given, a T5 from scratch of these sizes:")
      ("ignore-config", po::value(&options.ignored_config_fields)->composing(),
       "pass over this field of the model's config.json, which is not known; may be repeated")
      ("layers", whole_number(sizes.num_layers, {1, kMostLayers}), "of the encoder, and of the decoder")
      ("d-model", whole_number(sizes.d_model, {1, kMostSize}), "width of the hidden states")
      ("d-ff", whole_number(sizes.d_ff, {1, kMostSize}), "inner width of the feed-forward blocks")
      ("heads", whole_number(sizes.num_heads, {1, kMostSize}), "attention heads")
      ("d-kv", whole_number(sizes.d_kv, {1, kMostSize}), "width of a head")
      ("initializer-factor", real_number(sizes.initializer_factor, {1e-6, 1e6}), "of the start weights")
      ("dropout", real_number(sizes.dropout_rate, {0, 0.99}), "not given with --model, the model's own");
  // clang-format on
}

void take_t5_options(T5Options& options, const boost::program_options::variables_map& given) {
  if (was_given(given, "dropout")) options.dropout = options.sizes.dropout_rate;
  if (options.model.empty()) refuse_given(given, {"ignore-config"}, "is of --model");
  if (!options.model.empty()) {
    refuse_given(given, {"layers", "d-model", "d-ff", "heads", "d-kv", "initializer-factor"},
                 "is of a T5 from scratch, and --model gives one");
  }
  options.model = local_copy(options.model);
  options.sizes.num_decoder_layers = options.sizes.num_layers;
}

T5Config t5_config(const T5Options& options, const T5Tokens& tokens) {
  T5Config config = options.sizes;
  if (options.model.empty()) {
    config.vocab_size = tokens.vocabulary_size;
    config.pad_token_id = config.decoder_start_token_id = tokens.pad;
    config.eos_token_id = tokens.end;
    return config;
  }
  config = load_t5_config(options.model, {.ignored_config_fields = options.ignored_config_fields});
  check_tokenizer_of(options.model, config.vocab_size, tokens.file);
  if (config.pad_token_id != tokens.pad || config.eos_token_id != tokens.end) {
    throw ErrorException(
        ErrorCode::kInvalidArgument,
        fmt::format("the model in {} has other ids of padding and end than {}", options.model, tokens.file));
  }
  config.dropout_rate = options.dropout.value_or(config.dropout_rate);
  return config;
}

}  // namespace millrace

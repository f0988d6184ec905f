#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <boost/program_options.hpp>

#include "millrace/trainer/models/t5.h"

namespace millrace {

/// The options of a program that trains a T5: the folder of one to start from, or the sizes of one from scratch.
/// Defaults are of the members.
struct T5Options {
  std::string model = {};                               ///< in Hugging Face's layout. Default: empty, from scratch
  std::vector<std::string> ignored_config_fields = {};  ///< see `load_t5_config`. Default: none
  /// From scratch; the vocabulary is the tokenizer's. Default: 2 blocks of width 128 in each stack
  T5Config sizes = {.d_model = 128, .d_kv = 32, .d_ff = 512, .num_layers = 2, .num_heads = 4};
  std::optional<double> dropout = {};  ///< Default: none, that of `sizes`, or the model's own
};

void add_t5_options(T5Options& options, boost::program_options::options_description& model);
/// Takes what was given. Throws `kInvalidArgument` for sizes beside `--model`, and for what only that has without it.
void take_t5_options(T5Options& options, const boost::program_options::variables_map& given);

/// What a T5 knows of its tokenizer.
struct T5Tokens {
  std::string file = {};
  int64_t vocabulary_size = 0;
  int32_t pad = 0;
  int32_t end = 0;
};

/// Throws as `load_t5_config` and `check_tokenizer_of`, and `kInvalidArgument` for a `model` with another padding or
/// end.
T5Config t5_config(const T5Options& options, const T5Tokens& tokens);

}  // namespace millrace

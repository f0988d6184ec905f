#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "millrace/trainer/run/run_options.h"

namespace millrace {

/// The command line of `train_mlm`.
struct TrainMlmOptions {
  RunOptions run = {.out = "mlm"};  ///< `out` is empty with `synthetic`
  std::string shards;               ///< empty: OUT/shards
  std::string tokenizer;            ///< empty: OUT/tokenizer.json
  int64_t layers = 4;
  int64_t hidden = 256;
  int64_t heads = 0;       ///< 0: hidden / 64, at least 1
  int64_t vocab_size = 0;  ///< 0: the tokenizer's
  double dropout = 0.1;
  double initializer_range = 0;  ///< standard deviation of start weights; 0: 1 / sqrt(hidden)
  int64_t max_length = 128;
  double mask_probability = 0.15;  ///< of a token to be chosen
  int64_t shuffle = int64_t{1} << 18;
  bool synthetic = false;  ///< rows of random tokens: no files are read or written
};

/// Parses the command line; nothing when `--help` was asked for and printed. Throws `kInvalidArgument` with one line
/// that says what is wrong.
[[nodiscard]] std::optional<TrainMlmOptions> parse_train_mlm_options(int argc, const char* const* argv);

}  // namespace millrace

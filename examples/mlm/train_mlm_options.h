#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "millrace/formats/records/damage_policy.h"
#include "millrace/pipeline/stall.h"

namespace millrace {

/// The command line of `train_mlm`.
struct TrainMlmOptions {
  std::string out = "mlm";
  std::string shards;     ///< empty: OUT/shards
  std::string tokenizer;  ///< empty: OUT/tokenizer.json
  int64_t layers = 4;
  int64_t hidden = 256;
  int64_t heads = 0;       ///< 0: hidden / 64, at least 1
  int64_t vocab_size = 0;  ///< 0: the tokenizer's
  double dropout = 0.1;
  int64_t max_length = 128;
  int64_t global_batch = 128;
  int replicas = 8;
  int64_t accumulate = 1;
  int64_t steps = 250;
  double learning_rate = 1e-3;
  int64_t warmup_steps = 50;
  double weight_decay = 1e-3;
  double clip_norm = 0;                 ///< 0: gradients are not clipped
  std::string freeze;                   ///< a regular expression over parameters; empty: none
  std::string activations = "float32";  ///< or bfloat16
  int64_t shuffle = int64_t{1} << 18;
  int64_t seed = 42;
  int threads = 0;
  DamagePolicy damage;
  double watchdog = kProgramWatchdogSeconds;  ///< seconds; 0: off
  int64_t report_every = 10;
  std::string trace;  ///< a file; empty: none
  int64_t evaluate_every = 0;
  int64_t patience = -1;  ///< evaluations without an improvement that are put up with; -1: any number
  int keep_best = 0;
  int64_t checkpoint_every = 100;
  int keep_checkpoints = 3;
  std::string resume;
  bool overwrite = false;
  bool check = false;      ///< only see whether the options and OUT allow a run
  bool synthetic = false;  ///< rows of random tokens: no files are read or written
  bool json = false;
};

/// Parses the command line; nothing when `--help` was asked for and printed. Throws `kInvalidArgument` with one line
/// that says what is wrong.
[[nodiscard]] std::optional<TrainMlmOptions> parse_train_mlm_options(int argc, const char* const* argv);

}  // namespace millrace

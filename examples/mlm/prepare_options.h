#pragma once

#include <optional>
#include <string>

#include "examples/mlm/shard_preparation.h"
#include "examples/mlm/text_corpus.h"

namespace millrace {

/// The command line of `prepare_tfrecord_shards`.
struct PrepareOptions {
  std::string tokenizer;  ///< path of a tokenizer.json
  CorpusOptions corpus;
  std::string out;  ///< folder of the shards
  ShardPreparationOptions preparation;
  bool json = false;
};

/// Parses the command line; nothing when `--help` was asked for and printed. Throws `kInvalidArgument` with one line
/// that says what is wrong.
[[nodiscard]] std::optional<PrepareOptions> parse_prepare_options(int argc, char** argv);

}  // namespace millrace

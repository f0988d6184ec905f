#pragma once

#include <optional>
#include <string>

#include "examples/mlm/text_corpus.h"
#include "millrace/tokenizer/training/unigram_trainer.h"

namespace millrace {

/// The command line of `train_unigram`.
struct TrainUnigramOptions {
  CorpusOptions corpus;
  std::string out;  ///< folder of the tokenizer.json
  UnigramTrainerOptions training;
  bool json = false;
};

/// Parses the command line; nothing when `--help` was asked for and printed. Throws `kInvalidArgument` with one line
/// that says what is wrong.
[[nodiscard]] std::optional<TrainUnigramOptions> parse_train_unigram_options(int argc, const char* const* argv);

}  // namespace millrace

#pragma once

#include <string>

#include "examples/mlm/text_corpus.h"
#include "millrace/command_line/terminal_line.h"
#include "millrace/tokenizer/training/unigram_trainer.h"

namespace millrace {

/// Shows on a terminal how far a training is, in one line that is redrawn. On anything else it writes nothing. One
/// thread at a time.
class UnigramProgressLine {
 public:
  /// While words are counted; redraws ten times a second at most. `fraction` of the text is read.
  void counting(double fraction, const UnigramTrainer& trainer);
  /// When the pieces are about to be learnt.
  void learning(const UnigramTrainer& trainer);

 private:
  TerminalLine line_;
};

/// What a finished training came to.
struct UnigramReport {
  std::string path;  ///< of the tokenizer.json
  int32_t vocab_size = 0;
  int64_t words = 0;
  int64_t distinct_words = 0;
  CorpusReport corpus;
  double seconds = 0;
};

/// For people.
[[nodiscard]] std::string to_text(const UnigramReport& report);
/// One JSON object on one line.
[[nodiscard]] std::string to_json(const UnigramReport& report);

}  // namespace millrace

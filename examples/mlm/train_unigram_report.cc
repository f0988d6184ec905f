#include "examples/mlm/train_unigram_report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/json/names.h"

namespace millrace {

void UnigramProgressLine::counting(double fraction, const UnigramTrainer& trainer) {
  if (!line_.due()) return;
  line_.show(fmt::format("{:3.0f}%  counting words: {}, {} of them distinct", 100 * fraction, trainer.num_words(),
                         trainer.num_distinct_words()));
}

void UnigramProgressLine::learning(const UnigramTrainer& trainer) {
  line_.show(fmt::format("learning from {} words, {} of them distinct; this can take half a minute",
                         trainer.num_words(), trainer.num_distinct_words()));
}

std::string to_text(const UnigramReport& report) {
  return fmt::format("{}\n{} words, {} of them distinct\n{} tokens written to {} in {:.1f} s\n", to_text(report.corpus),
                     report.words, report.distinct_words, report.vocab_size, report.path, report.seconds);
}

std::string to_json(const UnigramReport& report) {
  const nlohmann::ordered_json json = {{"tokenizer", report.path},
                                       {"vocab_size", report.vocab_size},
                                       {"words", report.words},
                                       {"distinct_words", report.distinct_words},
                                       {"lines", report.corpus.lines},
                                       {"text_files", report.corpus.files},
                                       {"text_bytes", report.corpus.bytes},
                                       {"replaced_sequences", report.corpus.replaced_sequences},
                                       {"repeated_texts", report.corpus.repeated_texts},
                                       {"joined_lines", report.corpus.joined_lines},
                                       {"collapsed_spaces", report.corpus.collapsed_spaces},
                                       {"seconds", report.seconds}};
  return json_line(json) + "\n";
}

}  // namespace millrace

#include "examples/mlm/train_unigram_report.h"

#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace millrace {
namespace {

constexpr auto kRedrawInterval = std::chrono::milliseconds(100);
constexpr const char* kClearLine = "\r\x1b[K";

}  // namespace

UnigramProgressLine::UnigramProgressLine() : terminal_(::isatty(STDERR_FILENO) == 1) {}

UnigramProgressLine::~UnigramProgressLine() {
  if (terminal_) fmt::print(stderr, "{}", kClearLine);
}

void UnigramProgressLine::counting(double fraction, const UnigramTrainer& trainer) {
  if (!terminal_ || Clock::now() < redraw_at_) return;
  redraw_at_ = Clock::now() + kRedrawInterval;
  fmt::print(stderr, "{}{:3.0f}%  counting words: {}, {} of them distinct", kClearLine, 100 * fraction,
             trainer.num_words(), trainer.num_distinct_words());
  std::fflush(stderr);
}

void UnigramProgressLine::learning(const UnigramTrainer& trainer) {
  if (!terminal_) return;
  fmt::print(stderr, "{}learning from {} words, {} of them distinct; this can take half a minute", kClearLine,
             trainer.num_words(), trainer.num_distinct_words());
  std::fflush(stderr);
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
                                       {"joined_lines", report.corpus.joined_lines},
                                       {"collapsed_spaces", report.corpus.collapsed_spaces},
                                       {"seconds", report.seconds}};
  return json.dump() + "\n";
}

}  // namespace millrace

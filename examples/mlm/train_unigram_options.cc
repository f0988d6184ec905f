#include "examples/mlm/train_unigram_options.h"

#include <fmt/format.h>

#include "examples/mlm/corpus_options.h"
#include "millrace/command_line/command_line.h"
#include "millrace/formats/error.h"

namespace millrace {
namespace {

namespace po = boost::program_options;

constexpr const char* kAbout =
    "Learns a unigram vocabulary from text and writes it as a Hugging Face tokenizer.json.\n\n"
    "Special tokens are [CLS] 0, [SEP] 1, <unk> 2, <pad> 3, [MASK] 4; a text becomes [CLS] text [SEP].";

}  // namespace

std::optional<TrainUnigramOptions> parse_train_unigram_options(int argc, const char* const* argv) {
  TrainUnigramOptions options;
  UnigramTrainerOptions& training = options.training;
  const auto with_default = [](auto& value) { return po::value(&value)->default_value(value); };
  po::options_description visible("options");
  visible.add_options()("out", po::value(&options.out), "folder of tokenizer.json; made when it is not there");
  add_corpus_options(visible, options.corpus);
  // clang-format off
  visible.add_options()
      ("vocab-size", with_default(training.vocab_size), "tokens in the vocabulary, the special ones included")
      ("character-coverage",
       po::value(&training.character_coverage)->default_value(training.character_coverage,
                                                              fmt::format("{}", training.character_coverage)),
       "share of the text's characters that have a token of their own; the rarest others are unknown")
      ("max-words", with_default(training.max_words),
       "distinct words that are learnt from; of a text with more, the rarest are sampled and weighted")
      ("seed", with_default(training.seed), "of that sample")
      ("threads", with_default(training.threads), "cores that are used; 0: all. The result does not depend on it")
      ("json", "one JSON object instead of text");
  // clang-format on
  const auto given = parse_command_line(
      argc, argv, {.name = "train_unigram", .about = kAbout, .usage = "--out DIR [--text FILES...] [options]"},
      visible);
  if (!given) return std::nullopt;
  if (options.out.empty()) {
    throw ErrorException(ErrorCode::kInvalidArgument, "--out is missing; see train_unigram --help");
  }
  require_at_least("vocab-size", training.vocab_size, 6);
  require_at_least("max-words", training.max_words, 1);
  require_at_least("threads", training.threads, 0);
  if (!(training.character_coverage > 0 && training.character_coverage <= 1)) {
    throw ErrorException(
        ErrorCode::kInvalidArgument,
        fmt::format("--character-coverage is {}, must be above 0 and at most 1", training.character_coverage));
  }
  options.json = given->contains("json");
  return options;
}

}  // namespace millrace

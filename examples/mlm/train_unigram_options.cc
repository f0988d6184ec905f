#include "examples/mlm/train_unigram_options.h"

#include <fmt/format.h>

#include "examples/mlm/corpus_options.h"
#include "millrace/command_line/command_line.h"
#include "millrace/command_line/number_options.h"
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
  po::options_description visible("options");
  visible.add_options()("out", po::value(&options.out),
                        "folder of tokenizer.json, local or s3://BUCKET/FOLDER, gs://…; made when it is not there");
  add_corpus_options(visible, options.corpus);
  // clang-format off
  visible.add_options()
      ("vocab-size", whole_number(training.vocab_size, {6, 10'000'000}),
       "tokens in the vocabulary, the special ones included")
      ("character-coverage",
       real_number(training.character_coverage, {1e-6, 1}),
       "share of the text's characters that have a token of their own; the rarest others are unknown")
      ("max-words", whole_number(training.max_words, {1, limits::kRows}),
       "distinct words that are learnt from; of a text with more, the rarest are sampled and weighted")
      ("seed", whole_number(training.seed, {0, limits::kAny}), "of that sample")
      ("threads", whole_number(training.threads, {0, limits::kThreads}),
       "cores that are used; 0: all. The result does not depend on it")
      ("json", "one JSON object instead of text");
  // clang-format on
  const auto given = parse_command_line(
      argc, argv, {.name = "train_unigram", .about = kAbout, .usage = "--out DIR [--text FILES...] [options]"},
      visible);
  if (!given) return std::nullopt;
  if (options.out.empty()) {
    throw ErrorException(ErrorCode::kInvalidArgument, "--out is missing; see train_unigram --help");
  }
  options.json = given->contains("json");
  return options;
}

}  // namespace millrace

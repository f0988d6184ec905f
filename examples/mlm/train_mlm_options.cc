#include "examples/mlm/train_mlm_options.h"

#include <algorithm>

#include <fmt/format.h>

#include "millrace/command_line/command_line.h"
#include "millrace/command_line/given_options.h"
#include "millrace/command_line/number_options.h"
#include "millrace/trainer/models/config_limits.h"

namespace millrace {
namespace {

namespace po = boost::program_options;

constexpr int64_t kMostHidden = kMostSize / 4;  // the feed-forward layers are 4 times as wide
// There is a position more than tokens, and one for each id up to that of the padding.
constexpr int64_t kMostTokens = kMostSize / 2;

void check_synthetic(const TrainMlmOptions& options, const po::variables_map& given) {
  for (const char* file : {"resume", "shards", "tokenizer", "overwrite", "check", "out", "checkpoint-every",
                           "keep-checkpoints", "damage"}) {
    require(!was_given(given, file),
            fmt::format("--synthetic reads and writes no files, so --{} cannot be given with it", file));
  }
  require(options.vocab_size == 0 || options.vocab_size >= 6,
          fmt::format("--vocab-size is {}; the rows of --synthetic need 5 special tokens and others, 6 at least",
                      options.vocab_size));
}

}  // namespace

std::optional<TrainMlmOptions> parse_train_mlm_options(int argc, const char* const* argv) {
  TrainMlmOptions options;
  po::options_description files("files");
  po::options_description model("model");
  po::options_description training("training");
  po::options_description reports("reports");
  add_run_options(options.run, "of start weights, order, masks and dropout", files, training, reports);
  // clang-format off
  files.add_options()
      ("shards", po::value(&options.shards), "folder with train/ and validation/, or its s3:// or gs:// URL (default: OUT/shards)")
      ("tokenizer", po::value(&options.tokenizer), "tokenizer.json (default: OUT/tokenizer.json)")
      ("synthetic", "measure: train on rows of random tokens, without shards and tokenizer, and write no files");
  model.add_options()
      ("layers", whole_number(options.layers, {1, kMostLayers}), "encoder layers")
      ("hidden", whole_number(options.hidden, {1, kMostHidden}),
       "width of the hidden states; the feed-forward layers are 4 times as wide")
      ("heads", whole_number(options.heads, {0, kMostHidden}), "attention heads; 0: hidden / 64")
      ("vocab-size", whole_number(options.vocab_size, {0, kMostSize}),
       "entries of the vocabulary; 0: the tokenizer's, or 10048")
      ("dropout", real_number(options.dropout, {0, 0.99}), "of hidden states and attention")
      ("initializer-range", real_number(options.initializer_range, {0, 1}),
       "standard deviation of the start weights; 0: 1 / sqrt(hidden), with which a narrow model leaves the plateau; wide "
       "ones of transformers have 0.02")
      ("max-length", whole_number(options.max_length, {2, kMostTokens}), "tokens in a row, as in the shards");
  training.add_options()
      ("mask-probability", real_number(options.mask_probability, {0.001, 1}),
       "of a token to be one that is to be found; in an evaluation as well")
      ("shuffle", whole_number(options.shuffle, {1, limits::kRows}), "rows in the shuffle buffer");
  // clang-format on
  po::options_description all;
  all.add(files).add(model).add(training).add(reports);
  const auto given = parse_command_line(
      argc, argv,
      {.name = "train_mlm",
       .about = "Trains a RoBERTa masked language model on TFRecord shards and saves it in Hugging Face's layout.\n"
                "Ctrl-C finishes the step, leaves a checkpoint and exits with 130; a second one stops at once.",
       .usage = "[options]"},
      all);
  if (!given) return std::nullopt;
  options.synthetic = given->contains("synthetic");
  if (options.synthetic) check_synthetic(options, *given);
  take_run_options(options.run, *given);
  if (options.shards.empty()) options.shards = options.run.out + "/shards";
  if (options.tokenizer.empty()) options.tokenizer = options.run.out + "/tokenizer.json";
  if (options.synthetic) options.run.out.clear();
  if (options.heads == 0) options.heads = std::max<int64_t>(1, options.hidden / 64);
  require(options.hidden % options.heads == 0,
          fmt::format("--hidden is {}, must be a multiple of --heads, which is {}", options.hidden, options.heads));
  return options;
}

}  // namespace millrace

#include "examples/mlm/train_mlm_options.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "millrace/command_line/command_line.h"
#include "millrace/command_line/damage_options.h"
#include "millrace/command_line/number_options.h"
#include "millrace/formats/error.h"
#include "millrace/trainer/models/config_limits.h"
#include "millrace/trainer/trainer_options.h"

namespace millrace {
namespace {

namespace po = boost::program_options;

constexpr int64_t kMostHidden = kMostSize / 4;  // the feed-forward layers are 4 times as wide
// There is a position more than tokens, and one for each id up to that of the padding.
constexpr int64_t kMostTokens = kMostSize / 2;

// An option whose default is the value that is there.
template <typename T>
auto value(T& variable) {
  return po::value(&variable)->default_value(variable);
}

void require(bool holds, const std::string& message) {
  if (!holds) throw ErrorException(ErrorCode::kInvalidArgument, message);
}

}  // namespace

std::optional<TrainMlmOptions> parse_train_mlm_options(int argc, const char* const* argv) {
  TrainMlmOptions options;
  po::options_description files("files");
  // clang-format off
  files.add_options()
      ("out", value(options.out), "folder of the run: OUT/model, OUT/checkpoints, OUT/log.jsonl")
      ("shards", po::value(&options.shards), "folder with train/ and validation/ (default: OUT/shards)")
      ("tokenizer", po::value(&options.tokenizer), "tokenizer.json (default: OUT/tokenizer.json)")
      ("resume", po::value(&options.resume), "go on from this checkpoint directory, with the same options; one that is not in OUT/checkpoints needs an OUT "
       "without an earlier run, or --overwrite")
      ("overwrite", "replace the log, models and checkpoints of an earlier run in OUT")
      ("synthetic", "measure: train on rows of random tokens, without shards and tokenizer, and write no files")
      ("check", "see whether these options and OUT allow a run, and stop; shards and tokenizer may be missing");
  po::options_description model("model");
  model.add_options()
      ("layers", whole_number(options.layers, {1, kMostLayers}), "encoder layers")
      ("hidden", whole_number(options.hidden, {1, kMostHidden}),
       "width of the hidden states; the feed-forward layers are 4 times as wide")
      ("heads", whole_number(options.heads, {0, kMostHidden}), "attention heads; 0: hidden / 64")
      ("vocab-size", whole_number(options.vocab_size, {0, kMostSize}),
       "entries of the vocabulary; 0: the tokenizer's, or 10048")
      ("dropout", real_number(options.dropout, {0, 0.99}), "of hidden states and attention")
      ("max-length", whole_number(options.max_length, {2, kMostTokens}), "tokens in a row, as in the shards");
  po::options_description training("training");
  training.add_options()
      ("global-batch", whole_number(options.global_batch, {1, kMostSize}), "rows of a batch, over all replicas")
      ("replicas", whole_number(options.replicas, {1, kMostReplicas}), "parts that a batch is split into")
      ("accumulate", whole_number(options.accumulate, {1, kMostAccumulate}),
       "global batches whose gradients make one step, as if they were one batch; an epoch's last step may have fewer")
      ("steps", whole_number(options.steps, {1, kMostSteps}),
       "updates of the weights, those that are skipped for not being finite included; whatever is counted in steps counts these")
      ("learning-rate", real_number(options.learning_rate, {1e-12, 1e6}),
       "the highest; falls linearly to 0 at the last step")
      ("warmup-steps", whole_number(options.warmup_steps, {0, kMostSteps}),
       "steps in which the learning rate rises from 0; not given, at most --steps")
      ("weight-decay", real_number(options.weight_decay, {0, 1e6}),
       "of all parameters but layer norms and biases")
      ("clip-norm", real_number(options.clip_norm, {0, 1e30}),
       "the largest norm of the gradient, larger ones are scaled down to it; 0: any")
      ("freeze", po::value(&options.freeze),
       "parameters whose names match this regular expression are not trained, such as '^roberta\\.embeddings'")
      ("activations", value(options.activations),
       "how values wait for the backward pass, float32 or bfloat16; the latter takes less memory and rounds gradients")
      ("shuffle", whole_number(options.shuffle, {1, limits::kRows}), "rows in the shuffle buffer")
      ("seed", whole_number(options.seed, {0, limits::kAny}), "of start weights, order, masks and dropout")
      ("threads", whole_number(options.threads, {0, kMostStepThreads}),
       "of the steps and of the pipeline; 0: one for each core; the result is the same")
      ("watchdog", real_number(options.watchdog, {0, limits::kSeconds}),
       "when nothing has moved for so many seconds, say what is waited for: within a step and go on, while its "
       "batch or a shard is waited for and exit with 75; 0: wait forever");
  po::options_description reports("reports");
  reports.add_options()
      ("report-every", whole_number(options.report_every, {1, limits::kCount}), "steps")
      ("trace", po::value(&options.trace),
       "write what each thread does in the first 100 steps to this file, for chrome://tracing or ui.perfetto.dev")
      ("evaluate-every", whole_number(options.evaluate_every, {0, limits::kCount}),
       "steps; 0: when an epoch ends; always at the end")
      ("patience", whole_number(options.patience, {-1, limits::kCount}),
       "end the training after more than so many evaluations in a row that did not lower the loss; -1: never")
      ("keep-best", whole_number(options.keep_best, {0, limits::kFew}),
       "models with the lowest evaluation loss that stay, as OUT/best/step-00000120; 0: none, those of a run that goes on "
       "stay as they are")
      ("checkpoint-every", whole_number(options.checkpoint_every, {0, limits::kCount}),
       "steps; 0: when an epoch ends; always at the end")
      ("keep-checkpoints", whole_number(options.keep_checkpoints, {1, limits::kFew}), "the newest that stay")
      ("json", "print a summary as one JSON object on standard output");
  // clang-format on
  add_damage_options(training);
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
  options.damage = damage_policy(*given);
  options.overwrite = given->contains("overwrite");
  options.check = given->contains("check");
  options.json = given->contains("json");
  options.synthetic = given->contains("synthetic");
  for (const char* file : {"resume", "shards", "tokenizer", "overwrite", "check", "out", "checkpoint-every",
                           "keep-checkpoints", "damage"}) {
    const bool there = given->contains(file) && !(*given)[file].defaulted();
    require(!options.synthetic || !there,
            fmt::format("--synthetic reads and writes no files, so --{} cannot be given with it", file));
  }
  require(!options.synthetic || options.keep_best == 0, "--synthetic evaluates nothing, so --keep-best has no models");
  require(!options.synthetic || options.patience < 0,
          "--synthetic evaluates nothing, so --patience has nothing to wait for");
  require(!options.synthetic || options.evaluate_every == 0,
          "--synthetic evaluates nothing, also not every so many steps");
  if (options.shards.empty()) options.shards = options.out + "/shards";
  if (options.tokenizer.empty()) options.tokenizer = options.out + "/tokenizer.json";
  require(!options.out.empty(), "--out is empty");
  if ((*given)["warmup-steps"].defaulted()) options.warmup_steps = std::min(options.warmup_steps, options.steps);
  require(!options.synthetic || options.vocab_size == 0 || options.vocab_size >= 6,
          fmt::format("--vocab-size is {}; the rows of --synthetic need 5 special tokens and others, 6 at least",
                      options.vocab_size));
  require(options.activations == "float32" || options.activations == "bfloat16",
          fmt::format("--activations is {}, must be float32 or bfloat16", options.activations));
  if (options.heads == 0) options.heads = std::max<int64_t>(1, options.hidden / 64);
  require(options.hidden % options.heads == 0,
          fmt::format("--hidden is {}, must be a multiple of --heads, which is {}", options.hidden, options.heads));
  require(
      options.warmup_steps <= options.steps,
      fmt::format("--warmup-steps is {}, must be at most --steps, which is {}", options.warmup_steps, options.steps));
  return options;
}

}  // namespace millrace

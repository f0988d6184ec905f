#include "examples/mlm/train_mlm_options.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "millrace/command_line/command_line.h"
#include "millrace/command_line/damage_options.h"
#include "millrace/formats/error.h"
#include "millrace/trainer/models/config_limits.h"

namespace millrace {
namespace {

namespace po = boost::program_options;

// An option whose default is the value that is there.
template <typename T>
auto value(T& variable) {
  return po::value(&variable)->default_value(variable);
}

void require(bool holds, const std::string& message) {
  if (!holds) throw ErrorException(ErrorCode::kInvalidArgument, message);
}

void require_between(std::string_view option, int64_t value, int64_t least, int64_t most) {
  require_at_least(option, value, least);
  require(value <= most, fmt::format("--{} is {}, must be at most {}", option, value, most));
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
      ("layers", value(options.layers), "encoder layers")
      ("hidden", value(options.hidden), "width of the hidden states; the feed-forward layers are 4 times as wide")
      ("heads", value(options.heads), "attention heads; 0: hidden / 64")
      ("vocab-size", value(options.vocab_size), "entries of the vocabulary; 0: the tokenizer's, or 10048")
      ("dropout", po::value(&options.dropout)->default_value(options.dropout, "0.1"), "of hidden states and attention")
      ("max-length", value(options.max_length), "tokens in a row, as in the shards");
  po::options_description training("training");
  training.add_options()
      ("global-batch", value(options.global_batch), "rows of a batch, over all replicas")
      ("replicas", value(options.replicas), "parts that a batch is split into")
      ("accumulate", value(options.accumulate),
       "global batches whose gradients make one step, as if they were one batch; an epoch's last step may have fewer")
      ("steps", value(options.steps), "updates of the weights, those that are skipped for not being finite included; whatever is counted in steps counts these")
      ("learning-rate", po::value(&options.learning_rate)->default_value(options.learning_rate, "0.001"),
       "the highest; falls linearly to 0 at the last step")
      ("warmup-steps", value(options.warmup_steps), "steps in which the learning rate rises from 0; not given, at most --steps")
      ("weight-decay", po::value(&options.weight_decay)->default_value(options.weight_decay, "0.001"),
       "of all parameters but layer norms and biases")
      ("clip-norm", po::value(&options.clip_norm)->default_value(options.clip_norm, "0"),
       "the largest norm of the gradient, larger ones are scaled down to it; 0: any")
      ("freeze", po::value(&options.freeze),
       "parameters whose names match this regular expression are not trained, such as '^roberta\\.embeddings'")
      ("activations", value(options.activations),
       "how values wait for the backward pass, float32 or bfloat16; the latter takes less memory and rounds gradients")
      ("shuffle", value(options.shuffle), "rows in the shuffle buffer")
      ("seed", value(options.seed), "of start weights, order, masks and dropout")
      ("threads", value(options.threads), "of the steps and of the pipeline; 0: one for each core; the result is the same")
      ("watchdog", value(options.watchdog),
       "when nothing has moved for so many seconds, say what is waited for: within a step and go on, while its "
       "batch or a shard is waited for and exit with 75; 0: wait for ever");
  po::options_description reports("reports");
  reports.add_options()
      ("report-every", value(options.report_every), "steps")
      ("trace", po::value(&options.trace),
       "write what each thread does in the first 100 steps to this file, for chrome://tracing or ui.perfetto.dev")
      ("evaluate-every", value(options.evaluate_every), "steps; 0: when an epoch ends; always at the end")
      ("patience", value(options.patience),
       "end the training after more than so many evaluations in a row that did not lower the loss; -1: never")
      ("keep-best", value(options.keep_best),
       "models with the lowest evaluation loss that stay, as OUT/best/step-00000120; 0: none, those of a run that goes on "
       "stay as they are")
      ("checkpoint-every", value(options.checkpoint_every), "steps; 0: when an epoch ends; always at the end")
      ("keep-checkpoints", value(options.keep_checkpoints), "the newest that stay")
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
  require_between("layers", options.layers, 1, kMostLayers);
  // The feed-forward layers are 4 times as wide.
  require_between("hidden", options.hidden, 1, kMostSize / 4);
  require_at_least("heads", options.heads, 0);
  require_between("vocab-size", options.vocab_size, 0, kMostSize);
  require(!options.synthetic || options.vocab_size == 0 || options.vocab_size >= 6,
          fmt::format("--vocab-size is {}; the rows of --synthetic need 5 special tokens and others, 6 at least",
                      options.vocab_size));
  // There is a position more than tokens, and one for each id up to that of the padding.
  require_between("max-length", options.max_length, 2, kMostSize / 2);
  require_between("global-batch", options.global_batch, 1, kMostSize);
  require_at_least("replicas", options.replicas, 1);
  require_at_least("accumulate", options.accumulate, 1);
  require_at_least("steps", options.steps, 1);
  require_at_least("warmup-steps", options.warmup_steps, 0);
  require_at_least("shuffle", options.shuffle, 1);
  require_at_least("seed", options.seed, 0);
  require_at_least("threads", options.threads, 0);
  require_seconds("watchdog", options.watchdog);
  require_at_least("report-every", options.report_every, 1);
  require_at_least("evaluate-every", options.evaluate_every, 0);
  require_at_least("checkpoint-every", options.checkpoint_every, 0);
  require_at_least("keep-best", options.keep_best, 0);
  require_at_least("patience", options.patience, -1);
  require(options.clip_norm >= 0 && std::isfinite(options.clip_norm),
          fmt::format("--clip-norm is {}, must be at least 0", options.clip_norm));
  require_at_least("keep-checkpoints", options.keep_checkpoints, 1);
  require(options.activations == "float32" || options.activations == "bfloat16",
          fmt::format("--activations is {}, must be float32 or bfloat16", options.activations));
  if (options.heads == 0) options.heads = std::max<int64_t>(1, options.hidden / 64);
  require(options.hidden % options.heads == 0,
          fmt::format("--hidden is {}, must be a multiple of --heads, which is {}", options.hidden, options.heads));
  require(
      options.warmup_steps <= options.steps,
      fmt::format("--warmup-steps is {}, must be at most --steps, which is {}", options.warmup_steps, options.steps));
  require(options.dropout >= 0 && options.dropout < 1,
          fmt::format("--dropout is {}, must be at least 0 and below 1", options.dropout));
  require(options.learning_rate > 0 && std::isfinite(options.learning_rate),
          fmt::format("--learning-rate is {}, must be above 0", options.learning_rate));
  require(options.weight_decay >= 0 && std::isfinite(options.weight_decay),
          fmt::format("--weight-decay is {}, must be at least 0", options.weight_decay));
  return options;
}

}  // namespace millrace

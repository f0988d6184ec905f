#include "millrace/trainer/run/run_options.h"

#include <algorithm>

#include <fmt/format.h>

#include "millrace/command_line/damage_options.h"
#include "millrace/command_line/number_options.h"
#include "millrace/formats/error.h"
#include "millrace/trainer/models/config_limits.h"
#include "millrace/trainer/trainer_options.h"

namespace millrace {
namespace {

namespace po = boost::program_options;

// An option whose default is the value that is there.
auto value(std::string& variable) { return po::value(&variable)->default_value(variable); }

void require(bool holds, const std::string& message) {
  if (!holds) throw ErrorException(ErrorCode::kInvalidArgument, message);
}

}  // namespace

void add_run_options(RunOptions& options, const std::string& seeded, po::options_description& files,
                     po::options_description& training, po::options_description& reports) {
  // clang-format off
  files.add_options()
      ("out", value(options.out), "folder of the run: OUT/model, OUT/checkpoints, OUT/log.jsonl")
      ("resume", po::value(&options.resume), "go on from this checkpoint directory, with the same options; one that is not in OUT/checkpoints needs an OUT "
       "without an earlier run, or --overwrite")
      ("overwrite", "replace the log, models and checkpoints of an earlier run in OUT")
      ("check", "see whether these options and OUT allow a run, and stop; the data may be missing");
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
      ("seed", whole_number(options.seed, {0, limits::kAny}), seeded.c_str())
      ("threads", whole_number(options.threads, {0, kMostStepThreads}),
       "of the steps and of the pipeline; 0: one for each core; the result is the same")
      ("watchdog", real_number(options.watchdog, {0, limits::kSeconds}),
       "when nothing has moved for so many seconds, say what is waited for: within a step and go on, while its "
       "batch or a shard is waited for and exit with 75; 0: wait forever");
  add_damage_options(training);
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
}

void take_run_options(RunOptions& options, const po::variables_map& given) {
  options.damage = damage_policy(given);
  options.overwrite = given.contains("overwrite");
  options.check = given.contains("check");
  options.json = given.contains("json");
  require(!options.out.empty(), "--out is empty");
  if (given["warmup-steps"].defaulted()) options.warmup_steps = std::min(options.warmup_steps, options.steps);
  require(options.activations == "float32" || options.activations == "bfloat16",
          fmt::format("--activations is {}, must be float32 or bfloat16", options.activations));
  require(
      options.warmup_steps <= options.steps,
      fmt::format("--warmup-steps is {}, must be at most --steps, which is {}", options.warmup_steps, options.steps));
}

}  // namespace millrace

#include "millrace/trainer/run/run_options.h"

#include <fmt/format.h>

#include "millrace/command_line/damage_options.h"
#include "millrace/command_line/disk_cache_options.h"
#include "millrace/command_line/given_options.h"
#include "millrace/command_line/number_options.h"
#include "millrace/trainer/models/config_limits.h"
#include "millrace/trainer/run/run_phases.h"
#include "millrace/trainer/trainer_options.h"

namespace millrace {
namespace {

namespace po = boost::program_options;

// An option whose default is the value that is there.
auto value(std::string& variable) { return po::value(&variable)->default_value(variable); }
auto interval(const Interval& value) { return po::value<std::string>()->default_value(to_string(value)); }

// `steps` and `epochs` of the training are those of phases that say neither.
void take_phases(RunOptions& options, const po::variables_map& given) {
  take_phase_options(options.phase, given);
  options.phase.warmup_steps.may_be_fewer = !was_given(given, "warmup-steps");
  if (!given.contains("phase")) return;
  PhaseOptions others = options.phase;
  others.steps = others.epochs = 0;
  bool all_say_theirs = true;
  for (const auto& text : given["phase"].as<std::vector<std::string>>()) {
    PhaseOptions& phase = options.phases.emplace_back(parse_phase(text, others));
    if (phase.steps > 0 || phase.epochs > 0) continue;
    all_say_theirs = false;
    phase.steps = options.phase.steps;
    phase.epochs = options.phase.epochs;
  }
  for (const char* option : {"steps", "epochs"}) {
    require(!all_say_theirs || !was_given(given, option),
            fmt::format("--{} is given, but each --phase says how long it is", option));
  }
}

}  // namespace

void add_run_options(RunOptions& options, const std::string& seeded, po::options_description& files,
                     po::options_description& training, po::options_description& reports,
                     const std::string& run_folder) {
  const std::string contents = fmt::format(
      "folder of the run, local or s3://BUCKET/FOLDER, gs://…: {0}/model, {0}/checkpoints, {0}/log.jsonl", run_folder);
  // clang-format off
  files.add_options()
      ("out", value(options.out), contents.c_str())
      ("resume", po::value(&options.resume), "go on from this checkpoint, with the same options: a directory, of which one that is not in OUT/checkpoints needs an "
       "OUT without an earlier run or --overwrite, or `last`: the newest in OUT/checkpoints, and where there is none the "
       "training begins anew")
      ("overwrite", "replace the log, models and checkpoints of an earlier run in OUT")
      ("check", "say what the run is (model, phases, batches, memory), see whether options, data and OUT allow it, and stop; of data "
       "that are not there yet it says that they are not known");
  training.add_options()
      ("global-batch", whole_number(options.global_batch, {1, kMostSize}), "rows of a batch, over all replicas")
      ("replicas", whole_number(options.replicas, {1, kMostReplicas}), "parts that a batch is split into")
      ("accumulate", whole_number(options.accumulate, {1, kMostAccumulate}),
       "global batches whose gradients make one step, as if they were one batch; an epoch's last step may have fewer")
      ;
  add_phase_options(options.phase, training);
  training.add_options()
      ("phase", po::value<std::vector<std::string>>(),
       "a phase of the training, with an optimizer and a schedule that begin anew; may be repeated: NAME=VALUE of those above from "
       "--steps to --freeze, with commas between them and freeze last; what is not there is as given beside it")
      ("clip-norm", real_number(options.clip_norm, {0, 1e30}),
       "the largest norm of the gradient, larger ones are scaled down to it; 0: any")
      ("activations", value(options.activations),
       "how values wait for the backward pass, float32 or bfloat16; the latter takes less memory and rounds gradients")
      ("seed", whole_number(options.seed, {0, limits::kAny}), seeded.c_str())
      ("threads", whole_number(options.threads, {0, kMostStepThreads}),
       "of the steps and of the pipeline; 0: one for each core; the result is the same")
      ("watchdog", real_number(options.watchdog, {0, limits::kSeconds}),
       "when nothing has moved for so many seconds, say what is waited for: within a step and go on, while its "
       "batch or a shard is waited for and exit with 75; 0: wait forever");
  add_damage_options(training);
  add_disk_cache_options(training);
  reports.add_options()
      ("report-every", whole_number(options.report_every, {1, limits::kCount}), "steps")
      ("trace", po::value(&options.trace),
       "write what each thread does in the first 100 steps to this file, for chrome://tracing or ui.perfetto.dev")
      ("evaluate-every", interval(options.evaluate_every),
       "steps; 0: when an epoch ends; 2epochs: when each second one ends; always at the end")
      ("patience", whole_number(options.patience, {-1, limits::kCount}),
       "end the training, in its last phase, after more than so many evaluations in a row that were not better; -1: never")
      ("keep-best", whole_number(options.keep_best, {0, limits::kFew}),
       "models with the best evaluations that stay, as OUT/best/step-00000120; 0: none, those of a run that goes on "
       "stay as they are")
      ("keep-best-by", value(options.keep_best_by),
       "the loss, or the metric of the evaluations, by which --keep-best and --patience say what is better")
      ("checkpoint-every", interval(options.checkpoint_every), "as --evaluate-every")
      ("keep-checkpoints", whole_number(options.keep_checkpoints, {1, limits::kFew}), "the newest that stay")
      ("json", "print a summary as one JSON object on standard output");
  // clang-format on
}

StartOptions start_options(const RunOptions& options) {
  return {.threads = options.threads,
          .disk_cache = options.disk_cache,
          .watchdog = options.watchdog,
          .on_stall = exit_on_stall};
}

void take_run_options(RunOptions& options, const po::variables_map& given) {
  options.damage = damage_policy(given);
  options.disk_cache = disk_cache_options(given);
  options.overwrite = given.contains("overwrite");
  options.check = given.contains("check");
  options.json = given.contains("json");
  require(!options.out.empty(), "--out is empty");
  take_phases(options, given);
  options.evaluate_every = parse_interval("evaluate-every", given["evaluate-every"].as<std::string>());
  options.checkpoint_every = parse_interval("checkpoint-every", given["checkpoint-every"].as<std::string>());
  require(!was_given(given, "keep-best-by") || options.keep_best > 0 || options.patience >= 0,
          "--keep-best-by says nothing without --keep-best or --patience");
  require(options.activations == "float32" || options.activations == "bfloat16",
          fmt::format("--activations is {}, must be float32 or bfloat16", options.activations));
  for (const auto& [option, asks] :
       {std::pair{"keep-best", options.keep_best > 0}, std::pair{"patience", options.patience >= 0},
        std::pair{"evaluate-every", given["evaluate-every"].as<std::string>() != "0"}}) {
    if (asks && was_given(given, option)) options.given_for_evaluations.emplace_back(option);
  }
  check_phases(options);
}

}  // namespace millrace

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/program_options.hpp>

#include "millrace/formats/records/damage_policy.h"
#include "millrace/formats/storage/remote/disk_cache_options.h"
#include "millrace/pipeline/pipeline.h"
#include "millrace/pipeline/stall.h"
#include "millrace/trainer/run/phase_options.h"

namespace millrace {

/// The options that every training program has, beside its own of data and model. Defaults are of the members: a
/// program sets others before `add_run_options`.
struct RunOptions {
  std::string out = "out";     ///< folder of the run (OutputFolder); empty, by code alone: none. Default: out
  std::string resume = {};     ///< a checkpoint, or `last`: the newest in `out`. Default: empty, a new training
  bool overwrite = false;      ///< an earlier run in `out` is given up. Default: false
  bool check = false;          ///< say what the run is, and do not train. Default: false
  bool json = false;           ///< the summary is a JSON object. Default: false
  int64_t global_batch = 128;  ///< rows, over all replicas. Default: 128
  int replicas = 8;            ///< that a batch is split into. Default: 8
  int64_t accumulate = 1;      ///< batches that make one step. Default: 1
  PhaseOptions phase = {};     ///< of the training, and of `phases` what they do not say
  std::vector<PhaseOptions> phases = {};       ///< one after the other. Default: empty, `phase` alone
  double clip_norm = 0;                        ///< the largest norm of the gradient. Default: 0, any
  std::string activations = "float32";         ///< or bfloat16. Default: float32
  int64_t seed = 42;                           ///< Default: 42
  int threads = 0;                             ///< Default: 0, one for each core
  DamagePolicy damage = {};                    ///< Default: damage is an error
  DiskCacheOptions disk_cache = {};            ///< of shards at URLs. Default: none
  double watchdog = kProgramWatchdogSeconds;   ///< seconds; 0: off. Default: kProgramWatchdogSeconds
  int64_t report_every = 10;                   ///< steps. Default: 10
  std::string trace = {};                      ///< a file. Default: empty, none
  Interval evaluate_every = {};                ///< Default: when an epoch ends
  int64_t patience = -1;                       ///< evaluations in a row that are no better. Default: -1, any number
  int keep_best = 0;                           ///< models with the best evaluations that stay. Default: 0
  std::string keep_best_by = "loss";           ///< a number of the evaluations, also for `patience`. Default: loss
  Interval checkpoint_every = {.steps = 100};  ///< Default: 100 steps
  int keep_checkpoints = 3;                    ///< the newest that stay. Default: 3
  /// Options that were given and ask for evaluations, without their dashes: a run that has none refuses these, and not
  /// what is a program's default. Default: none
  std::vector<std::string> given_for_evaluations = {};
};

/// Declares them, in three groups of `--help` to which a program adds its own. Values go to `options`, which must stay
/// until they have been parsed. Of two texts a part is the program's:
/// `seeded` says what is drawn with `--seed`, `run_folder` where in `--out` a run has its folder.
void add_run_options(RunOptions& options, const std::string& seeded, boost::program_options::options_description& files,
                     boost::program_options::options_description& training,
                     boost::program_options::options_description& reports, const std::string& run_folder = "OUT");

/// How a run's pipelines are started.
[[nodiscard]] StartOptions start_options(const RunOptions& options);

/// Takes what was given, each of `phases` in the order in which they come. Throws `kInvalidArgument` with one line for
/// what cannot be together.
void take_run_options(RunOptions& options, const boost::program_options::variables_map& given);

}  // namespace millrace

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/program_options.hpp>

#include "millrace/formats/records/damage_policy.h"
#include "millrace/pipeline/stall.h"
#include "millrace/trainer/run/phase_options.h"

namespace millrace {

/// The options that every training program has, beside its own of data and model. Defaults are of the members: a
/// program sets others before `add_run_options`.
struct RunOptions {
  std::string out = "out";  ///< folder of the run (OutputFolder); empty: nothing is written
  std::string resume = {};  ///< a checkpoint's directory; empty: a new training
  bool overwrite = false;
  bool check = false;  ///< only see whether the options and `out` allow a run
  bool json = false;
  int64_t global_batch = 128;
  int replicas = 8;
  int64_t accumulate = 1;
  PhaseOptions phase = {};                ///< of the training, and of `phases` what they do not say
  std::vector<PhaseOptions> phases = {};  ///< one after the other; empty: `phase` alone
  double clip_norm = 0;                   ///< 0: gradients are not clipped
  std::string activations = "float32";    ///< or bfloat16
  int64_t seed = 42;
  int threads = 0;  ///< 0: one for each core
  DamagePolicy damage = {};
  double watchdog = kProgramWatchdogSeconds;  ///< seconds; 0: off
  int64_t report_every = 10;                  ///< steps
  std::string trace = {};                     ///< a file; empty: none
  Interval evaluate_every = {};
  int64_t patience = -1;  ///< evaluations without an improvement that are put up with; -1: any number
  int keep_best = 0;
  std::string keep_best_by = "loss";  ///< a number of the evaluations, also for `patience`
  Interval checkpoint_every = {.steps = 100};
  int keep_checkpoints = 3;
};

/// Declares them, in three groups of `--help` to which a program adds its own. Only `--seed`'s text is the program's:
/// `seeded` says what is drawn with it.
void add_run_options(RunOptions& options, const std::string& seeded, boost::program_options::options_description& files,
                     boost::program_options::options_description& training,
                     boost::program_options::options_description& reports);

/// Takes what was given, each of `phases` in the order in which they come. Throws `kInvalidArgument` with one line for
/// what cannot be together.
void take_run_options(RunOptions& options, const boost::program_options::variables_map& given);

}  // namespace millrace

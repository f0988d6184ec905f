#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/program_options.hpp>

#include "millrace/trainer/run/step_counts.h"

namespace millrace {

/// How long a training goes on and how its weights are updated; of a phase of it, the same.
struct PhaseOptions {
  int64_t steps = 250;              ///< 0: as many as `epochs` have. Default: 250
  int64_t epochs = 0;               ///< of both the one that ends first counts. Default: 0, as many as `steps` are
  std::string optimizer = "adamw";  ///< or radam, lamb. Default: adamw
  double learning_rate = 1e-3;      ///< the highest. Default: 1e-3
  double start_rate = 0;            ///< at the first step of the warm-up. Default: 0
  double end_rate = 0;              ///< at the end. Default: 0
  /// In which the rate rises from `start_rate`. Default: 50
  Warmup warmup_steps = {.steps = 50};
  std::string decay = "linear";  ///< or cosine, how it falls to `end_rate`; or milestones. Default: linear
  /// With `decay` milestones: after so many steps of the phase the rate is multiplied by `milestone_factor`. Default:
  /// none
  std::vector<int64_t> milestones = {};
  double milestone_factor = 0;  ///< Default: 0, a half
  double weight_decay = 1e-3;   ///< Default: 1e-3
  std::string freeze = {};      ///< a regular expression over parameters. Default: empty, none is frozen
};

/// Declares them; the values that are there are their defaults.
void add_phase_options(PhaseOptions& options, boost::program_options::options_description& described);

/// Takes what was given. Steps that are given stand for epochs by default, and epochs for steps. Throws
/// `kInvalidArgument` with one line.
void take_phase_options(PhaseOptions& options, const boost::program_options::variables_map& given);

/// `steps=200,learning-rate=1e-3,freeze=^encoder`: options without their dashes; those that are not there are as in
/// `others`. `freeze`, whose value may have commas, comes last. Throws `kInvalidArgument` with one line that begins
/// with `--phase`.
[[nodiscard]] PhaseOptions parse_phase(const std::string& text, const PhaseOptions& others);

}  // namespace millrace

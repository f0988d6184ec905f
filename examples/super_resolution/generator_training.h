#pragma once

#include <optional>
#include <string>

#include "examples/super_resolution/image_pairs.h"
#include "millrace/trainer/models/super_resolution.h"
#include "millrace/trainer/run/run_options.h"

namespace millrace {

/// What the programs that train a generator have in common, each with defaults of its own.
struct GeneratorTraining {
  RunOptions run = {};
  ImagePairsOptions pairs = {};
  GeneratorConfig generator = {};
  SuperResolutionLosses losses = {};
  DiscriminatorConfig discriminator = {.channels = 32};
  std::string features = {};  ///< a network's safetensors file; empty: one that is drawn
  std::string model = {};     ///< folder of a generator to start with; empty: from scratch
  std::string teacher = {};   ///< folder of a generator to learn from; empty: none
};

/// The command line of such a program, `--gan` among it, which gives the losses and the rate that `with_gan` has where
/// they are not given; nothing when `--help` was asked for and printed. Throws `kInvalidArgument` with one line.
[[nodiscard]] std::optional<GeneratorTraining> parse_generator_training(int argc, char** argv, const char* program,
                                                                        const char* about, GeneratorTraining defaults,
                                                                        const SuperResolutionLosses& with_gan);

/// Trains, or says what the run is. Gives the exit code.
int train_generator(const char* program, const GeneratorTraining& training);

}  // namespace millrace

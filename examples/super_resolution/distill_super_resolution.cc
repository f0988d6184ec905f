// Trains a small generator from a large one; see distill_super_resolution --help and docs/super_resolution.md.
#include "examples/super_resolution/generator_training.h"
#include "millrace/command_line/command_line.h"
#include "millrace/command_line/given_options.h"

namespace {

using namespace millrace;

constexpr const char* kName = "distill_super_resolution";
constexpr const char* kAbout =
    "Trains a student, a generator of few and depthwise separable convolutions, to make what a teacher makes: by the\n"
    "pixels, or with --gan also by a frozen network's features and a discriminator. Ctrl-C finishes the step, leaves "
    "a\n"
    "checkpoint and exits with 130; a second one stops at once.";

int run(int argc, char** argv) {
  const GeneratorTraining defaults = {
      .run = {.out = "student",
              .global_batch = 16,
              .phase = {.steps = 1000, .learning_rate = 5e-4, .warmup_steps = {}, .weight_decay = 0},
              .keep_best_by = "psnr"},
      .generator = {.blocks = 3, .depthwise = true},
      .losses = {.absolute = 0, .squared = 1}};
  const SuperResolutionLosses with_gan = {.absolute = 0, .squared = 1 - 1e-4, .perceptual = 5e-2, .adversarial = 1e-4};
  const auto training = parse_generator_training(argc, argv, kName, kAbout, defaults, with_gan);
  if (!training) return 0;
  require(!training->teacher.empty(), "--teacher is missing");
  return train_generator(kName, *training);
}

}  // namespace

int main(int argc, char** argv) {
  return millrace::run_program(kName, [&] { return run(argc, argv); });
}

// Trains a generator of larger images; see train_super_resolution --help and docs/super_resolution.md.
#include "examples/super_resolution/generator_training.h"
#include "millrace/command_line/command_line.h"

namespace {

using namespace millrace;

constexpr const char* kName = "train_super_resolution";
constexpr const char* kAbout =
    "Trains ESRGAN's generator of images that are four times as large: by the pixels, or with --gan also by a frozen\n"
    "network's features and a discriminator. Ctrl-C finishes the step, leaves a checkpoint and exits with 130; a "
    "second\n"
    "one stops at once.";

int run(int argc, char** argv) {
  const GeneratorTraining defaults = {
      .run = {.out = "super_resolution",
              .global_batch = 16,
              .phase = {.steps = 1000, .learning_rate = 2e-4, .warmup_steps = {}, .weight_decay = 0},
              .keep_best_by = "psnr"},
      .losses = {.absolute = 1}};
  const SuperResolutionLosses with_gan = {.absolute = 1e-2, .perceptual = 1, .adversarial = 5e-3};
  const auto training = parse_generator_training(argc, argv, kName, kAbout, defaults, with_gan);
  return training ? train_generator(kName, *training) : 0;
}

}  // namespace

int main(int argc, char** argv) {
  return millrace::run_program(kName, [&] { return run(argc, argv); });
}

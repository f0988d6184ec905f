#include "examples/super_resolution/generator_training.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "millrace/command_line/command_line.h"
#include "millrace/command_line/given_options.h"
#include "millrace/command_line/number_options.h"
#include "millrace/trainer/metrics/psnr.h"
#include "millrace/trainer/run/local_copy.h"
#include "millrace/trainer/run/output_folder.h"
#include "millrace/trainer/run/run_spec.h"
#include "millrace/trainer/run/training_run.h"

namespace millrace {
namespace {

namespace po = boost::program_options;

constexpr const char* kImage = "high_res_image";
constexpr double kGanRate = 5e-5;

// Features of a network that nobody has trained: edges and textures at three sizes.
std::shared_ptr<const Vgg> features_of(const GeneratorTraining& training) {
  if (training.losses.perceptual == 0) return nullptr;
  if (!training.features.empty()) return std::make_shared<const Vgg>(Vgg::read(training.features));
  return std::make_shared<const Vgg>(Vgg::drawn({{16, 16}, {32, 32}, {64, 64}}, 0));
}

std::string generator_folder(const std::string& given) {
  return model_folder(local_copy(given), "train_super_resolution");
}

// What is trained, and on what.
struct Parts {
  explicit Parts(const GeneratorTraining& training)
      : pairs(training.pairs),
        model({.generator = training.generator,
               .losses = training.losses,
               .discriminator = training.discriminator,
               .features = features_of(training),
               .teacher = training.teacher.empty()
                              ? nullptr
                              : std::make_shared<TrainedGenerator>(generator_folder(training.teacher)),
               .generator_folder = training.model.empty() ? "" : generator_folder(training.model)}),
        global_batch(training.run.global_batch) {}

  // They must not outlive this.
  RunParts run_parts() const {
    const auto save_description = [this](const std::string& directory) {
      save_generator_config(directory, model.generator().config());
    };
    const auto save_weights = [this](const std::string& directory, std::span<const float> weights) {
      save_generator_weights(directory, model.layout(), model.generator(), weights);
      if (const Vgg* features = model.options().features.get()) features->write(directory + "/features.safetensors");
    };
    // No epoch's rows are dropped: others begin the next. Of records of others nobody knows how many there are.
    const int64_t rows = pairs.training_rows();
    const int64_t batches = rows == 0 ? 0 : std::max<int64_t>(1, (rows + global_batch / 2) / global_batch);
    return {.trained = {.model = model, .save_description = save_description, .save_weights = save_weights},
            .data = {.training = pairs.training_batches(),
                     .evaluation = pairs.evaluation_batches(),
                     .metrics = [] { return metrics_of(Psnr(1, {.predictions = kImage, .labels = kImage})); },
                     .higher_is_better = {"psnr", "told_apart"},
                     .description = pairs.describe(),
                     .batches_per_epoch = batches,
                     .rows_per_epoch = batches * global_batch}};
  }

  ImagePairs pairs;
  SuperResolution model;
  int64_t global_batch;
};

}  // namespace

std::optional<GeneratorTraining> parse_generator_training(int argc, char** argv, const char* program, const char* about,
                                                          GeneratorTraining defaults,
                                                          const SuperResolutionLosses& with_gan) {
  GeneratorTraining training = std::move(defaults);
  SuperResolutionLosses& losses = training.losses;
  po::options_description files("files");
  po::options_description model("model");
  po::options_description of_training("training");
  po::options_description reports("reports");
  add_run_options(training.run, "of start weights, order and changes of images", files, of_training, reports);
  const RealNumberLimits factor = {0, 1e6};
  const auto described = [](const char* what, double usual, double gan) {
    return fmt::format("factor of {}. Default: {}, with --gan {}", what, usual, gan);
  };
  double absolute = 0;
  double squared = 0;
  double perceptual = 0;
  double adversarial = 0;
  const std::string gan_help = fmt::format(
      "with a discriminator, in the same step: defaults are those of the four factors with it, and a learning rate of "
      "{}",
      kGanRate);
  // clang-format off
  files.add_options()
      ("shards", po::value(&training.pairs.shards), "folder that prepare_super_resolution wrote, or its URL (default: OUT/shards)")
      ("records", po::value(&training.pairs.records), "in its place, TFRecords of others by a pattern, such as 'dataset.*.tfrecord'")
      ("evaluation-records", po::value(&training.pairs.evaluation_records), "with --records, those to evaluate on")
      ("crop", whole_number(&training.pairs.crop, {4, 65536}), "with --records, pixels of a side of their high_res_image")
      ("peak", real_number(training.pairs.peak, {1, 65535}), "with --records, their value of white")
      ("model", po::value(&training.model), "folder of a generator to start with")
      ("teacher", po::value(&training.teacher), "folder of a generator whose images are learnt, in place of the originals")
      ("features", po::value(&training.features),
       "safetensors of a VGG with torchvision's names, for the perceptual term (default: a small one that nobody has trained)");
  model.add_options()
      ("blocks", whole_number(training.generator.blocks, {1, 64}), "residual-in-residual dense blocks")
      ("channels", whole_number(training.generator.channels, {1, 1024}), "of the images between them")
      ("growth", whole_number(training.generator.growth, {1, 1024}), "channels that a convolution of a dense block adds")
      ("add-bicubic", "the bicubic image is added to what the convolutions make: learns faster; not in ESRGAN")
      ("discriminator-channels", whole_number(training.discriminator.channels, {1, 1024}), "of its first level")
      ("discriminator-levels", whole_number(training.discriminator.levels, {1, 8}), "each halves an image's sides");
  if (!training.generator.depthwise) {
    model.add_options()("depthwise", "depthwise separable convolutions: a smaller and faster one");
  }
  of_training.add_options()
      ("gan", gan_help.c_str())
      ("absolute", real_number(&absolute, factor), described("the pixels' mean absolute error", losses.absolute, with_gan.absolute).c_str())
      ("squared", real_number(&squared, factor), described("their mean squared error", losses.squared, with_gan.squared).c_str())
      ("perceptual", real_number(&perceptual, factor), described("the mean absolute error of the features", losses.perceptual, with_gan.perceptual).c_str())
      ("adversarial", real_number(&adversarial, factor), described("the relativistic average GAN's loss", losses.adversarial, with_gan.adversarial).c_str())
      ("shuffle", whole_number(training.pairs.shuffle, {1, limits::kRows}), "rows in the shuffle buffer")
      ("brightness", real_number(training.pairs.brightness, {0, 1}), "the most that is added to, or taken from, all values")
      ("contrast", real_number(training.pairs.contrast, {0, 1}), "the most by which the contrast becomes more or less")
      ("no-augment", "images are not turned, flipped or changed");
  // clang-format on
  po::options_description all;
  all.add(files).add(model).add(of_training).add(reports);
  const auto given = parse_command_line(argc, argv, {.name = program, .about = about, .usage = "[options]"}, all);
  if (!given) return std::nullopt;
  if (given->contains("gan")) {
    losses = with_gan;
    if (!was_given(*given, "learning-rate")) training.run.phase.learning_rate = kGanRate;
  }
  take_run_options(training.run, *given);
  for (const auto& [name, value, loss] : {std::tuple{"absolute", &absolute, &losses.absolute},
                                          {"squared", &squared, &losses.squared},
                                          {"perceptual", &perceptual, &losses.perceptual},
                                          {"adversarial", &adversarial, &losses.adversarial}}) {
    if (was_given(*given, name)) *loss = *value;
  }
  if (losses.adversarial == 0) {
    refuse_given(*given, {"discriminator-channels", "discriminator-levels"}, "needs --gan");
  }
  if (losses.adversarial > 0) {
    const RunOptions& run = training.run;
    require(
        run.global_batch >= 2 * run.replicas,
        fmt::format("--gan: a replica compares its real images with the mean of its made ones, and needs two rows at "
                    "least; --global-batch is {}, --replicas {}",
                    run.global_batch, run.replicas));
  }
  if (losses.perceptual == 0)
    refuse_given(*given, {"features"}, "needs the perceptual term: --gan, or --perceptual above 0");
  ImagePairsOptions& pairs = training.pairs;
  if (pairs.records.empty()) {
    refuse_given(*given, {"evaluation-records", "crop", "peak"}, "goes with --records");
    if (pairs.shards.empty()) pairs.shards = training.run.out + "/shards";
  } else {
    refuse_given(*given, {"shards"}, "and --records are two kinds of files; give one");
    require(was_given(*given, "crop"), "--records needs --crop, the pixels of a side of their high_res_image");
  }
  pairs.augment = !given->contains("no-augment");
  if (!pairs.augment) refuse_given(*given, {"brightness", "contrast"}, "and --no-augment cannot be together");
  training.generator.depthwise = training.generator.depthwise || given->contains("depthwise");
  training.generator.adds_bicubic = given->contains("add-bicubic");
  pairs.global_batch = training.run.global_batch;
  pairs.seed = static_cast<uint64_t>(training.run.seed);
  pairs.damage = training.run.damage;
  return training;
}

int train_generator(const char* program, const GeneratorTraining& training) {
  std::unique_ptr<const Parts> parts;
  const auto make = [&] { return (parts = std::make_unique<const Parts>(training))->run_parts(); };
  if (training.run.check) return check_run(training.run, make);
  const RunParts made = make();
  check_evaluation(training.run, made.data);
  const auto lines = [&](const TrainingSummary&) {
    const auto count = static_cast<double>(parts->model.generator().multiplications());
    std::vector<SummaryLine> said = {{.name = "multiplications",
                                      .text = fmt::format("{:.0f} for a pixel of the small image", count),
                                      .key = "multiplications",
                                      .value = count}};
    if (const TrainedGenerator* teacher = parts->model.options().teacher.get()) {
      const double share = count / static_cast<double>(teacher->generator().multiplications());
      said.push_back({.name = "of the teacher's",
                      .text = fmt::format("{:.3f}", share),
                      .key = "share_of_teachers_multiplications",
                      .value = share});
    }
    return said;
  };
  return TrainingRun(program, training.run).train(made.trained, made.data, lines);
}

}  // namespace millrace

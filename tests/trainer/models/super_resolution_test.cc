#include "millrace/trainer/models/super_resolution.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/formats/storage/whole_file.h"
#include "millrace/trainer/gradient_check.h"
#include "millrace/trainer/tensor/resize_bicubic.h"
#include "tests/support/temporary_folder.h"

namespace millrace::super_resolution_test {
namespace {

using test::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

const GeneratorConfig kSmall = {.blocks = 1, .channels = 4, .growth = 3};
const GeneratorConfig kSeparable = {.blocks = 1, .channels = 4, .growth = 3, .depthwise = true, .adds_bicubic = true};
constexpr int64_t kRows = 3;
constexpr int64_t kSide = 3;
constexpr int64_t kHighSide = kSide * kUpscaling;

std::vector<float> drawn(int64_t count, uint64_t seed) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    value = static_cast<float>(seed >> 40) / (1 << 24);
  }
  return values;
}

struct Rows {
  std::vector<float> low = drawn(kRows * kSide * kSide * 3, 1);
  std::vector<float> high = drawn(kRows * kHighSide * kHighSide * 3, 2);

  BatchView view(bool labelled = true) const {
    std::vector<FeatureView> features = {{"low_res_image", low, {kRows, kSide, kSide, 3}}};
    if (labelled) features.emplace_back("high_res_image", high, std::vector<int64_t>{kRows, kHighSide, kHighSide, 3});
    return BatchView(features);
  }
};

std::shared_ptr<const Vgg> network() { return std::make_shared<const Vgg>(Vgg::drawn({{4}, {5}}, 7)); }

SuperResolutionOptions with_gan(const GeneratorConfig& generator = kSmall) {
  return {.generator = generator,
          .losses = {.absolute = 0.3, .squared = 0.7, .perceptual = 0.5, .adversarial = 0.9},
          .discriminator = {.channels = 3, .levels = 2},
          .features = network()};
}

FlatBuffer start_values(const Model& model, uint64_t seed = 1) {
  FlatBuffer weights(model.layout().size());
  model.initialize(weights.span(), seed);
  // Larger than start values, so that each of them matters.
  for (const Parameter& parameter : model.layout().parameters()) {
    const std::vector<float> more = drawn(parameter.size, seed + 3 + static_cast<uint64_t>(parameter.offset));
    for (size_t i = 0; i < more.size(); ++i)
      weights.span()[static_cast<size_t>(parameter.offset) + i] += 0.2F * more[i] - 0.1F;
  }
  return weights;
}

StepResult evaluated(const SuperResolution& model, const FlatBuffer& weights, const BatchView& rows) {
  const auto workspace = model.make_workspace();
  return model.evaluate(rows, weights.data(), *workspace);
}

double metric(const StepResult& result, const std::string& name) {
  for (const MetricSum& one : result.metrics) {
    if (one.name == name) return one.value();
  }
  throw std::logic_error("no metric " + name);
}

class NoListener final : public GradientListener {
 public:
  void gradient_final(int) override {}
};

std::vector<float> gradients_of(const SuperResolution& model, const FlatBuffer& weights,
                                std::optional<std::span<const int>> trainable = std::nullopt) {
  const auto workspace = model.make_workspace();
  FlatBuffer gradients(model.layout().size());
  NoListener listener;
  ReplicaContext context{
      .gradients = gradients.span(), .trainable = trainable, .listener = &listener, .workspace = workspace.get()};
  (void)model.train_step(Rows().view(), weights.data(), context);
  return {gradients.data(), gradients.data() + gradients.size()};
}

TEST(SuperResolution, HasTheGradientsOfItsLossesEachOfItsOwn) {
  for (const GeneratorConfig& generator : {kSmall, kSeparable}) {
    const SuperResolution model(with_gan(generator));
    // Of a start where no step crosses a corner of an absolute value.
    const FlatBuffer weights = start_values(model, 2);
    GradientCheckOptions options;
    // It is on both sides of the difference that the losses are made of.
    options.left_out = [](const Parameter& parameter, int64_t) {
      return parameter.name == "discriminator.linear2.bias";
    };
    for (const WrongGradient& wrong : check_gradients(model, Rows().view(), weights.span(), options)) {
      ADD_FAILURE() << wrong.to_string();
    }
  }
}

TEST(SuperResolution, GivesNeitherSideTheLossOfTheOther) {
  // With a hundred times the weight of the adversarial term only the generator's gradients change, by what it adds to
  // them; with other targets of the pixels the discriminator's do not change at all.
  const SuperResolution model(with_gan());
  const FlatBuffer weights = start_values(model);
  const std::vector<float> gradients = gradients_of(model, weights);
  const auto differing = [&](const SuperResolutionOptions& options, const std::string& prefix) {
    const SuperResolution other(options);
    const std::vector<float> others = gradients_of(other, weights);
    int differ = 0;
    for (const Parameter& parameter : model.layout().parameters()) {
      if (!parameter.name.starts_with(prefix)) continue;
      const auto begin = static_cast<size_t>(parameter.offset);
      for (size_t i = begin; i < begin + static_cast<size_t>(parameter.size); ++i) differ += gradients[i] != others[i];
    }
    return differ;
  };
  SuperResolutionOptions options = with_gan();
  options.losses.adversarial = 90;
  EXPECT_EQ(differing(options, "discriminator."), 0);
  EXPECT_GT(differing(options, "generator."), 0);
  options = with_gan();
  options.losses.absolute = 5;
  EXPECT_EQ(differing(options, "discriminator."), 0);
  EXPECT_GT(differing(options, "generator."), 0);
}

// The loss of a side that is frozen is not computed backward at all, so nothing of it can be in the other's gradients.
TEST(SuperResolution, GivesASideTheSameGradientsWhetherTheOtherIsTrainedOrFrozen) {
  const SuperResolution model(with_gan());
  const FlatBuffer weights = start_values(model);
  const std::vector<float> both = gradients_of(model, weights);
  const std::span<const Parameter> parameters = model.layout().parameters();
  for (const std::string side : {"generator.", "discriminator."}) {
    std::vector<int> trained;
    for (size_t id = 0; id < parameters.size(); ++id) {
      if (parameters[id].name.starts_with(side)) trained.push_back(static_cast<int>(id));
    }
    const std::vector<float> alone = gradients_of(model, weights, trained);
    for (const int id : trained) {
      const Parameter& parameter = parameters[static_cast<size_t>(id)];
      const auto of = [&](const std::vector<float>& all) {
        return std::vector<float>(all.begin() + parameter.offset, all.begin() + parameter.offset + parameter.size);
      };
      EXPECT_EQ(of(alone), of(both)) << parameter.name;
      if (parameter.name.ends_with(".weight")) {
        EXPECT_THAT(of(both), testing::Contains(testing::Ne(0.0F))) << parameter.name;
      }
    }
  }
}

TEST(SuperResolution, HasTheTermsOfTheirFormulas) {
  SuperResolutionOptions options = with_gan();
  const SuperResolution model(options);
  const FlatBuffer weights = start_values(model);
  const Rows rows;
  const auto workspace = model.make_workspace();
  const Predictions predictions = model.predict(rows.view(), weights.data(), *workspace);
  const StepResult result = evaluated(model, weights, rows.view());
  EXPECT_EQ(result.weight, kRows);

  // Pixels: of what is predicted before it is cut, so with weights that keep it inside.
  ParameterLayout layout;
  const ImageGenerator generator(layout, kSmall);
  layout.finish();
  FlatBuffer own(layout.size());
  copy_generator(model.layout(), model.generator(), weights.span(), layout, generator, own.span());
  Arena arena;
  Tape<float> tape(arena);
  tape.begin(layout, own.data());
  const Tensor<float> made = generator.upscale(tape, tape.constant(rows.low.data(), {kRows, kSide, kSide, 3}));
  const std::span<const float> predicted = predictions.values<float>("high_res_image");
  double absolute = 0;
  double squared = 0;
  for (size_t i = 0; i < rows.high.size(); ++i) {
    EXPECT_EQ(predicted[i], std::clamp(made.values[i], 0.0F, 1.0F));
    const double error = static_cast<double>(made.values[i]) - rows.high[i];
    absolute += std::abs(error);
    squared += error * error;
  }
  const auto values = static_cast<double>(rows.high.size());
  EXPECT_NEAR(metric(result, "absolute"), absolute / values, 1e-5);
  EXPECT_NEAR(metric(result, "squared"), squared / values, 1e-5);

  const Tensor<float> real = tape.constant(rows.high.data(), made.shape);
  const Tensor<float> of_made = options.features->maps(tape, made);
  const Tensor<float> of_real = options.features->maps(tape, real);
  double perceptual = 0;
  for (int64_t i = 0; i < of_made.count(); ++i) perceptual += std::abs(of_made.values[i] - of_real.values[i]);
  EXPECT_NEAR(metric(result, "perceptual"), perceptual / static_cast<double>(of_made.count()), 1e-5);

  // The GAN: the logits of a discriminator with the same weights.
  ParameterLayout other;
  const ImageDiscriminator discriminator(other, options.discriminator, "discriminator.");
  other.finish();
  FlatBuffer of_discriminator(other.size());
  for (const Parameter& parameter : other.parameters()) {
    const Parameter& from =
        model.layout().parameters()[static_cast<size_t>(model.layout().find(parameter.name).value())];
    std::copy_n(weights.data() + from.offset, from.size, of_discriminator.data() + parameter.offset);
  }
  Arena second_arena;
  Tape<float> second(second_arena);
  second.begin(other, of_discriminator.data());
  const auto logits = [&](const float* images) {
    const Tensor<float> said = discriminator.logits(second, second.constant(images, {kRows, kHighSide, kHighSide, 3}));
    return std::vector<double>(said.values, said.values + said.count());
  };
  const std::vector<double> r = logits(rows.high.data());
  const std::vector<double> f = logits(made.values);
  const auto mean = [](const std::vector<double>& x) { return (x[0] + x[1] + x[2]) / 3; };
  const auto bce = [](double x, double target) {
    const double p = 1 / (1 + std::exp(-x));
    return -target * std::log(p) - (1 - target) * std::log(1 - p);
  };
  double generator_loss = 0;
  double discriminator_loss = 0;
  double told = 0;
  for (size_t i = 0; i < r.size(); ++i) {
    const double real_side = r[i] - mean(f);
    const double made_side = f[i] - mean(r);
    generator_loss += (bce(real_side, 0) + bce(made_side, 1)) / 2;
    discriminator_loss += (bce(real_side, 1) + bce(made_side, 0)) / 2;
    told += (real_side > 0 ? 1 : 0) + (made_side < 0 ? 1 : 0);
  }
  EXPECT_NEAR(metric(result, "adversarial"), generator_loss / 3, 1e-4);
  EXPECT_NEAR(result.loss(1).sum / result.loss(1).weight, discriminator_loss / 3, 1e-4);
  EXPECT_NEAR(metric(result, "told_apart"), told / 6, 1e-9);
  EXPECT_NEAR(result.sum_loss / result.weight,
              0.3 * metric(result, "absolute") + 0.7 * metric(result, "squared") + 0.5 * metric(result, "perceptual") +
                  0.9 * metric(result, "adversarial"),
              1e-4);
}

TEST(SuperResolution, LearnsFromATeacher) {
  const TemporaryFolder folder;
  const SuperResolution model({.generator = kSmall});
  const FlatBuffer weights = start_values(model);
  save_generator_config(folder.path(), kSmall);
  save_generator_weights(folder.path(), model.layout(), model.generator(), weights.span());
  const auto teacher = std::make_shared<const TrainedGenerator>(folder.path());
  const SuperResolution student({.generator = kSmall, .losses = {.absolute = 1, .squared = 1}, .teacher = teacher});
  // One with the teacher's weights makes the same; from another start it does not.
  const StepResult same = evaluated(student, weights, Rows().view());
  EXPECT_EQ(same.sum_loss, 0);
  const StepResult other = evaluated(student, start_values(student, 2), Rows().view());
  EXPECT_GT(other.sum_loss, 0.01);
  EXPECT_THAT(student.describe(), HasSubstr("teacher=esrgan_generator(blocks=1"));
  // A start from a folder is the folder's.
  const SuperResolution begun({.generator = kSmall, .generator_folder = folder.path()});
  FlatBuffer start(begun.layout().size());
  begun.initialize(start.span(), 5);
  EXPECT_EQ(std::vector(start.span().begin(), start.span().end()),
            std::vector(weights.span().begin(), weights.span().end()));
  const SuperResolution larger({.generator = {.blocks = 2, .channels = 4}, .generator_folder = folder.path()});
  FlatBuffer of_larger(larger.layout().size());
  EXPECT_THAT([&] { larger.initialize(of_larger.span(), 1); }, ThrowsMessage<ErrorException>(HasSubstr("blocks=1")));
}

TEST(SuperResolution, RefusesWhatCannotBe) {
  const auto refused = [](SuperResolutionOptions options, const std::string& message) {
    EXPECT_THAT([&] { const SuperResolution model(std::move(options)); },
                ThrowsMessage<ErrorException>(HasSubstr(message)));
  };
  refused({.losses = {.absolute = 0}}, "all factors of the loss are 0");
  refused({.losses = {.absolute = -1}}, "a factor of the loss is -1");
  refused({.losses = {.perceptual = 1}}, "a perceptual term needs a frozen network");
  refused({.generator = {.blocks = 0}}, "blocks is 0");
  refused({.generator = {.channels = 0}}, "channels is 0");
  refused({.generator = {.residual_scale = 2}}, "residual_scale is 2");
  refused({.losses = {.adversarial = 1}, .discriminator = {.levels = 9}}, "levels is 9");
  const SuperResolution model({.generator = kSmall});
  const FlatBuffer weights = start_values(model);
  const std::vector<float> low = drawn(2 * 9 * 3, 1);
  const std::vector<float> high = drawn(2 * 9 * 3, 2);
  const BatchView rows({{"low_res_image", low, {2, 3, 3, 3}}, {"high_res_image", high, {2, 3, 3, 3}}});
  EXPECT_THAT(
      [&] { (void)evaluated(model, weights, rows); },
      ThrowsMessage<ErrorException>(HasSubstr("feature 'high_res_image' is [2, 3, 3, 3], must be [2, 12, 12, 3]")));
  const BatchView flat({{"low_res_image", low, {2, 27}}});
  const auto workspace = model.make_workspace();
  EXPECT_THAT([&] { (void)model.predict(flat, weights.data(), *workspace); },
              ThrowsMessage<ErrorException>(HasSubstr("feature 'low_res_image' is [2, 27]")));
}

// Of one generator.
struct Made {
  explicit Made(const GeneratorConfig& config) : generator(layout, config) {
    layout.finish();
    weights = FlatBuffer(layout.size());
    generator.initialize(layout, weights.span(), 3);
    for (const Parameter& parameter : layout.parameters()) {
      const std::vector<float> more = drawn(parameter.size, static_cast<uint64_t>(parameter.offset));
      for (size_t i = 0; i < more.size(); ++i)
        weights.span()[static_cast<size_t>(parameter.offset) + i] += 0.1F * more[i] - 0.05F;
    }
  }
  std::vector<float> upscaled(const std::vector<float>& pixels, int64_t height, int64_t width) {
    Arena arena;
    Tape<float> tape(arena);
    tape.begin(layout, weights.data());
    const Tensor<float> images = generator.upscale(tape, tape.constant(pixels.data(), {1, height, width, 3}));
    capacity = arena.capacity();
    return {images.values, images.values + images.count()};
  }

  ParameterLayout layout;
  ImageGenerator generator;
  FlatBuffer weights;
  size_t capacity = 0;
};

TEST(ImageGenerator, MakesTheSameWhetherATapeRecordsOrNotAndHoldsLessThen) {
  Made made({.blocks = 3, .channels = 8, .growth = 8});
  const std::vector<float> pixels = drawn(40 * 48 * 3, 4);
  const std::vector<float> images = made.upscaled(pixels, 40, 48);
  EXPECT_EQ(images.size(), pixels.size() * 16);
  for (const float value : images) ASSERT_TRUE(std::isfinite(value));
  Arena arena;
  Tape<float> tape(arena);
  FlatBuffer gradients(made.layout.size());
  tape.begin(made.layout, made.weights.data(), {.values = gradients.data()});
  const Tensor<float> recorded = made.generator.upscale(tape, tape.constant(pixels.data(), {1, 40, 48, 3}));
  EXPECT_EQ(std::vector<float>(recorded.values, recorded.values + recorded.count()), images);
  EXPECT_LT(made.capacity * 3, arena.capacity());
}

// As tf.image.resize(images, size, "bicubic") has it inside: of a line of 4 pixels 8.
TEST(ImageGenerator, AddsTheBicubicImage) {
  Made plain({.blocks = 1, .channels = 4, .growth = 3});
  Made adding({.blocks = 1, .channels = 4, .growth = 3, .adds_bicubic = true});
  std::ranges::copy(plain.weights.span(), adding.weights.span().begin());  // start values differ
  const std::vector<float> pixels = drawn(5 * 6 * 3, 4);
  const std::vector<float> before = plain.upscaled(pixels, 5, 6);
  const std::vector<float> after = adding.upscaled(pixels, 5, 6);
  Arena arena;
  Tape<double> tape(arena);
  tape.begin(plain.layout, nullptr);
  const std::vector<double> wider(pixels.begin(), pixels.end());
  const Tensor<double> bicubic = resize_bicubic(tape, tape.constant(wider.data(), {1, 5, 6, 3}), 4);
  for (size_t i = 0; i < after.size(); ++i) ASSERT_NEAR(after[i], before[i] + bicubic.values[i], 1e-5);
  // A line of a straight slope stays one between the centres of its pixels; a constant one stays as it is.
  const std::vector<double> line = {0, 1, 2, 3, 4, 5};
  const Tensor<double> doubled = resize_bicubic(tape, tape.constant(line.data(), {1, 1, 6, 1}), 2);
  for (int64_t i = 3; i < 9; ++i) EXPECT_NEAR(doubled.values[i], (static_cast<double>(i) + 0.5) / 2 - 0.5, 1e-12);
  // Between two pixels at a quarter: the weights of Keys' kernel with a = -0.5 at 1.25, 0.25, 0.75 and 1.75.
  const std::vector<double> impulse = {0, 0, 0, 1, 0, 0, 0};
  const Tensor<double> response = resize_bicubic(tape, tape.constant(impulse.data(), {1, 1, 7, 1}), 2);
  const std::vector<double> weights = {-0.0234375, -0.0703125, 0.2265625, 0.8671875};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(response.values[3 + i], weights[i], 1e-12);
    EXPECT_NEAR(response.values[10 - i], weights[i], 1e-12);
  }
}

TEST(ImageGenerator, HasAsManyMultiplicationsAsItsConvolutions) {
  // conv_first 3·3·3·4; three dense blocks of 9·(4·3 + 7·3 + 10·3 + 13·3 + 16·4); conv_body 9·16; transposed ones 9·16
  // for a pixel and for 4; conv_hr 9·16 and conv_last 9·4·3 for 16.
  EXPECT_EQ(Made(kSmall).generator.multiplications(), 108 + 3 * 9 * 166 + 144 + 144 * 5 + 16 * (144 + 108));
  // In place of 9·in·out 9·in + in·out, but for the first, the last and the transposed ones.
  EXPECT_EQ(Made(kSeparable).generator.multiplications(),
            108 + 3 * (9 * 50 + 166) + (36 + 16) + 144 * 5 + 16 * ((36 + 16) + 108));
}

TEST(ImageGenerator, IsMadeOfNothingBeyondItsRadius) {
  for (const bool depthwise : {false, true}) {
    Made made({.blocks = 1, .channels = 4, .growth = 4, .residual_scale = 1, .depthwise = depthwise});
    const int64_t radius = made.generator.radius();
    const int64_t width = 2 * radius + 7;
    const int64_t middle = width / 2;
    std::vector<float> pixels = drawn(3 * width * 3, 6);
    const std::vector<float> before = made.upscaled(pixels, 3, width);
    // Whether a change `distance` pixels from the middle changes one of the pixels that are made of the middle.
    const auto reaches = [&](int64_t distance) {
      std::vector<float> changed = pixels;
      for (int64_t y = 0; y < 3; ++y) {
        for (int64_t c = 0; c < 3; ++c) changed[static_cast<size_t>((y * width + middle + distance) * 3 + c)] += 100;
      }
      const std::vector<float> after = made.upscaled(changed, 3, width);
      for (int64_t y = 0; y < 12; ++y) {
        for (int64_t i = 0; i < 12; ++i) {
          const auto at = static_cast<size_t>((y * width * 4 + middle * 4) * 3 + i);
          if (after[at] != before[at]) return true;
        }
      }
      return false;
    };
    EXPECT_TRUE(reaches(0));
    EXPECT_TRUE(reaches(radius / 2));
    for (const int64_t side : {-1, 1}) EXPECT_FALSE(reaches(side * (radius + 1))) << side;
  }
}

TEST(TrainedGenerator, IsReadAsItWasWrittenOrRefused) {
  const TemporaryFolder folder;
  Made made(kSeparable);
  save_generator_config(folder.path(), kSeparable);
  save_generator_weights(folder.path(), made.layout, made.generator, made.weights.span());
  const TrainedGenerator read(folder.path());
  EXPECT_EQ(read.generator().config(), kSeparable);
  const std::vector<float> pixels = drawn(2 * 5 * 6 * 3, 4);
  const std::vector<float> both = read.upscale(pixels, 5, 6);
  const std::vector<float> second(pixels.begin() + 90, pixels.end());
  EXPECT_EQ(std::vector<float>(both.begin() + std::ssize(both) / 2, both.end()), made.upscaled(second, 5, 6))
      << "each image by itself";

  const std::string config = read_whole_file(folder.path() + "/config.json");
  const auto refused = [&](const std::string& from, const std::string& to, const std::string& message) {
    std::string other = config;
    other.replace(other.find(from), from.size(), to);
    write_atomically(folder.path() + "/config.json", other);
    EXPECT_THAT([&] { const TrainedGenerator generator(folder.path()); },
                ThrowsMessage<ErrorException>(HasSubstr(message)));
  };
  refused("esrgan_generator", "roberta", "model_type");
  refused("\"blocks\": 1", "\"blocks\": 0", "blocks is 0");
  refused("\"blocks\": 1", "\"blocks\": 2", "body.1.rdb1.conv1");
  refused("\"upscaling\": 4", "\"upscaling\": 2", "upscaling");
}

}  // namespace
}  // namespace millrace::super_resolution_test

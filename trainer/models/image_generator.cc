#include "millrace/trainer/models/image_generator.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "millrace/formats/error.h"
#include "millrace/formats/safetensors/writer.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/trainer/checkpoint/parameter_file.h"
#include "millrace/trainer/models/config_file.h"
#include "millrace/trainer/models/normal_weights.h"
#include "millrace/trainer/tensor/add.h"
#include "millrace/trainer/tensor/concat.h"
#include "millrace/trainer/tensor/conv2d.h"
#include "millrace/trainer/tensor/conv_transpose2d.h"
#include "millrace/trainer/tensor/depthwise_conv2d.h"
#include "millrace/trainer/tensor/in_place_of.h"
#include "millrace/trainer/tensor/relu.h"
#include "millrace/trainer/tensor/resize_bicubic.h"
#include "millrace/trainer/tensor/scale.h"

namespace millrace {
namespace {

constexpr int64_t kColours = 3;
constexpr int64_t kSide = 3;               // of kernels
constexpr int64_t kDenseBlocks = 3;        // of an RRDB
constexpr int64_t kDenseConvolutions = 5;  // of a dense block
constexpr int64_t kUpscalings = 2;         // each by 2
constexpr double kSlope = 0.2;
constexpr double kDenseStart = 0.1;  // of the start values in dense blocks
constexpr double kLastStart = 0.1;   // of the last convolution's, so that a training begins near black
constexpr std::string_view kModelType = "esrgan_generator";

}  // namespace

void GeneratorConfig::check() const {
  const auto need = [](const char* name, auto value, auto least, auto most) {
    if (value >= least && value <= most) return;
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("{} is {}, must be {} to {}", name, value, least, most));
  };
  need("blocks", blocks, int64_t{1}, int64_t{64});
  need("channels", channels, int64_t{1}, int64_t{1024});
  need("growth", growth, int64_t{1}, int64_t{1024});
  need("residual_scale", residual_scale, 0.0, 1.0);
}

std::string GeneratorConfig::describe() const {
  return fmt::format(
      "esrgan_generator(blocks={}, channels={}, growth={}, residual_scale={}, depthwise={}, adds_bicubic={})", blocks,
      channels, growth, residual_scale, depthwise, adds_bicubic);
}

ImageGenerator::ImageGenerator(ParameterLayout& layout, const GeneratorConfig& config, const std::string& prefix,
                               int loss)
    : config_(config), prefix_(prefix), loss_(loss) {
  config.check();
  const int64_t channels = config.channels;
  first_ = add_convolution(layout, "conv_first", kColours, channels, false);
  for (int64_t block = 0; block < config.blocks; ++block) {
    for (int64_t dense = 0; dense < kDenseBlocks; ++dense) {
      DenseBlock& made = dense_blocks_.emplace_back();
      for (int64_t i = 0; i < kDenseConvolutions; ++i) {
        const int64_t out = i + 1 < kDenseConvolutions ? config.growth : channels;
        made.convolutions.push_back(add_convolution(layout,
                                                    fmt::format("body.{}.rdb{}.conv{}", block, dense + 1, i + 1),
                                                    channels + i * config.growth, out, config.depthwise));
      }
    }
  }
  body_ = add_convolution(layout, "conv_body", channels, channels, config.depthwise);
  int64_t pixels = 1;
  for (int64_t i = 0; i < kUpscalings; ++i, pixels *= 4) {
    up_.push_back(add_transposed(layout, fmt::format("conv_up{}", i + 1), pixels));
  }
  before_last_ = add_convolution(layout, "conv_hr", channels, channels, config.depthwise, pixels);
  last_ = add_convolution(layout, "conv_last", channels, kColours, false, pixels);
}

int ImageGenerator::add_parameter(ParameterLayout& layout, const std::string& name, std::vector<int64_t> shape) {
  parameters_.push_back(layout.add(prefix_ + name, std::move(shape), loss_));
  return parameters_.back();
}

ImageGenerator::Convolution ImageGenerator::add_convolution(ParameterLayout& layout, const std::string& name,
                                                            int64_t in, int64_t out, bool depthwise, int64_t pixels) {
  Convolution made;
  int64_t side = kSide;
  if (depthwise) {
    made.depthwise = add_parameter(layout, name + ".depthwise", {kSide, kSide, in});
    multiplications_ += pixels * kSide * kSide * in;
    side = 1;
  }
  made.kernel = add_parameter(layout, name + ".weight", {side, side, in, out});
  made.bias = add_parameter(layout, name + ".bias", {out});
  multiplications_ += pixels * side * side * in * out;
  return made;
}

ImageGenerator::Convolution ImageGenerator::add_transposed(ParameterLayout& layout, const std::string& name,
                                                           int64_t pixels) {
  const int64_t channels = config_.channels;
  Convolution made;
  made.kernel = add_parameter(layout, name + ".weight", {kSide, kSide, channels, channels});
  made.bias = add_parameter(layout, name + ".bias", {channels});
  multiplications_ += pixels * kSide * kSide * channels * channels;
  return made;
}

void ImageGenerator::initialize(const ParameterLayout& layout, std::span<float> weights, uint64_t seed) const {
  const auto all = layout.parameters();
  const auto draw = [&](int id, double fan_in, double times) {
    initialize_parameter(layout, id, times * std::sqrt(2 / fan_in), weights, seed);
  };
  const auto draw_convolution = [&](const Convolution& convolution, double times) {
    const std::vector<int64_t>& shape = all[static_cast<size_t>(convolution.kernel)].shape;
    if (convolution.depthwise >= 0) draw(convolution.depthwise, kSide * kSide, 1);
    draw(convolution.kernel, static_cast<double>(shape[0] * shape[1] * shape[2]), times);
  };
  draw_convolution(first_, 1);
  for (const DenseBlock& block : dense_blocks_) {
    for (const Convolution& convolution : block.convolutions) draw_convolution(convolution, kDenseStart);
  }
  draw_convolution(body_, 1);
  // A pixel of what comes out of a stride of 2 sees a quarter of the kernel.
  for (const Convolution& up : up_) draw(up.kernel, static_cast<double>(kSide * kSide * config_.channels) / 4, 1);
  draw_convolution(before_last_, 1);
  if (!config_.adds_bicubic) draw_convolution(last_, kLastStart);
}

template <typename T>
Tensor<T> ImageGenerator::convolve(Tape<T>& tape, const Tensor<T>& x, const Convolution& convolution) const {
  Tensor<T> in = x;
  if (convolution.depthwise >= 0) in = depthwise_conv2d(tape, x, tape.parameter(convolution.depthwise));
  const Tensor<T> y = conv2d(tape, in, tape.parameter(convolution.kernel));
  if (convolution.depthwise >= 0) tape.discard(in);
  const Tensor<T> with_bias = add_bias(tape, y, tape.parameter(convolution.bias));
  tape.discard(y);
  return with_bias;
}

namespace {

template <typename T>
Tensor<T> activated(Tape<T>& tape, const Tensor<T>& x) {
  return in_place_of(tape, x, [&](const Tensor<T>& from) { return leaky_relu(tape, from, kSlope); });
}

}  // namespace

// x + residual_scale change, of which `change` is given back.
template <typename T>
Tensor<T> ImageGenerator::plus_scaled(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& change) const {
  const Tensor<T> scaled =
      in_place_of(tape, change, [&](const Tensor<T>& from) { return scale(tape, from, config_.residual_scale); });
  return in_place_of(tape, scaled, [&](const Tensor<T>& from) { return add(tape, x, from); });
}

template <typename T>
Tensor<T> ImageGenerator::dense_block(Tape<T>& tape, const Tensor<T>& x, const DenseBlock& block) const {
  std::vector<Tensor<T>> parts = {x};
  for (const Convolution& convolution : block.convolutions) {
    const bool last = &convolution == &block.convolutions.back();
    const bool first = parts.size() == 1;
    const Tensor<T> in = first ? x : concat<T>(tape, parts, 3);
    const Tensor<T> out = convolve(tape, in, convolution);
    if (!first) tape.discard(in);
    parts.push_back(last ? out : activated(tape, out));
  }
  for (size_t i = 1; i + 1 < parts.size(); ++i) tape.discard(parts[i]);
  return plus_scaled(tape, x, parts.back());
}

template <typename T>
Tensor<T> ImageGenerator::upscale(Tape<T>& tape, const Tensor<T>& images) const {
  const Tensor<T> first = convolve(tape, images, first_);
  Tensor<T> x = first;
  for (size_t block = 0; block < dense_blocks_.size(); block += kDenseBlocks) {
    const Tensor<T> before = x;
    for (size_t dense = 0; dense < kDenseBlocks; ++dense) {
      const Tensor<T> next = dense_block(tape, x, dense_blocks_[block + dense]);
      if (dense > 0) tape.discard(x);
      x = next;
    }
    x = plus_scaled(tape, before, x);
    if (block > 0) tape.discard(before);
  }
  const Tensor<T> body = convolve(tape, x, body_);
  tape.discard(x);
  x = in_place_of(tape, body, [&](const Tensor<T>& from) { return add(tape, first, from); });
  tape.discard(first);
  for (const Convolution& up : up_) {
    x = in_place_of(tape, x,
                    [&](const Tensor<T>& from) { return conv_transpose2d(tape, from, tape.parameter(up.kernel), 2); });
    x = in_place_of(tape, x, [&](const Tensor<T>& from) { return add_bias(tape, from, tape.parameter(up.bias)); });
    x = activated(tape, x);
  }
  x = activated(tape, in_place_of(tape, x, [&](const Tensor<T>& from) { return convolve(tape, from, before_last_); }));
  x = in_place_of(tape, x, [&](const Tensor<T>& from) { return convolve(tape, from, last_); });
  if (!config_.adds_bicubic) return x;
  const Tensor<T> larger = resize_bicubic(tape, images, kUpscaling);
  x = in_place_of(tape, x, [&](const Tensor<T>& from) { return add(tape, larger, from); });
  tape.discard(larger);
  return x;
}

int64_t ImageGenerator::radius() const {
  // A pixel for each 3x3 convolution before the image becomes larger; of those after it, and of the transposed ones,
  // less than two together.
  return 2 + config_.blocks * kDenseBlocks * kDenseConvolutions + 2;
}

template Tensor<float> ImageGenerator::upscale(Tape<float>&, const Tensor<float>&) const;
template Tensor<double> ImageGenerator::upscale(Tape<double>&, const Tensor<double>&) const;

TrainedGenerator::TrainedGenerator(const std::string& directory)
    : generator_(layout_, load_generator_config(directory)) {
  layout_.finish();
  weights_ = load_parameters(directory, layout_);
}

std::vector<float> TrainedGenerator::upscale(std::span<const float> pixels, int64_t height, int64_t width) const {
  Arena arena;
  Tape<float> tape(arena);
  tape.begin(layout_, weights_.data());
  const int64_t images = std::ssize(pixels) / (height * width * kColours);
  const Tensor<float> made = generator_.upscale(tape, tape.constant(pixels.data(), {images, height, width, kColours}));
  return {made.values, made.values + made.count()};
}

std::string TrainedGenerator::describe() const {
  const auto bytes = std::as_bytes(weights_.span());
  return fmt::format("{} xxh3={:016x}", generator_.config().describe(), XXH3_64bits(bytes.data(), bytes.size()));
}

void copy_generator(const ParameterLayout& from_layout, const ImageGenerator& from, std::span<const float> from_weights,
                    const ParameterLayout& to_layout, const ImageGenerator& to, std::span<float> to_weights) {
  for (size_t i = 0; i < from.parameters().size(); ++i) {
    const Parameter& source = from_layout.parameters()[static_cast<size_t>(from.parameters()[i])];
    const Parameter& target = to_layout.parameters()[static_cast<size_t>(to.parameters()[i])];
    std::copy_n(from_weights.begin() + source.offset, source.size, to_weights.begin() + target.offset);
  }
}

void save_generator_weights(const std::string& directory, const ParameterLayout& layout,
                            const ImageGenerator& generator, std::span<const float> weights) {
  ParameterLayout alone;
  const ImageGenerator same(alone, generator.config());
  alone.finish();
  FlatBuffer values(alone.size());
  copy_generator(layout, generator, weights, alone, same, values.span());
  write_safetensors(model_file(directory, "model.safetensors"), parameter_tensors(alone, values.span()));
}

GeneratorConfig load_generator_config(const std::string& directory) {
  const ConfigFile file(directory);
  GeneratorConfig config;
  const std::string_view type = kModelType;
  (void)file.need_one_of("model_type", {&type, 1});
  file.need("upscaling", kUpscaling);
  file.read("blocks", config.blocks);
  file.read("channels", config.channels);
  file.read("growth", config.growth);
  file.read("residual_scale", config.residual_scale);
  file.read("depthwise", config.depthwise);
  file.read("adds_bicubic", config.adds_bicubic);
  file.refuse_unknown({});
  file.check(config);
  return config;
}

void save_generator_config(const std::string& directory, const GeneratorConfig& config) {
  const nlohmann::ordered_json json = {{"model_type", kModelType},      {"upscaling", kUpscaling},
                                       {"blocks", config.blocks},       {"channels", config.channels},
                                       {"growth", config.growth},       {"residual_scale", config.residual_scale},
                                       {"depthwise", config.depthwise}, {"adds_bicubic", config.adds_bicubic}};
  write_atomically(model_file(directory, "config.json"), json.dump(2) + "\n");
}

}  // namespace millrace

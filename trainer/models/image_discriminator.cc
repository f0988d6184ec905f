#include "millrace/trainer/models/image_discriminator.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/models/normal_weights.h"
#include "millrace/trainer/tensor/add.h"
#include "millrace/trainer/tensor/conv2d.h"
#include "millrace/trainer/tensor/linear.h"
#include "millrace/trainer/tensor/mean_pool.h"
#include "millrace/trainer/tensor/relu.h"

namespace millrace {
namespace {

constexpr int64_t kColours = 3;
constexpr int64_t kSide = 3;
constexpr int64_t kUnits = 100;
constexpr int64_t kMostTimes = 8;
constexpr double kSlope = 0.2;

}  // namespace

void DiscriminatorConfig::check() const {
  const auto need = [](const char* name, int64_t value, int64_t most) {
    if (value >= 1 && value <= most) return;
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("{} is {}, must be 1 to {}", name, value, most));
  };
  need("channels", channels, 1024);
  need("levels", levels, 8);
}

std::string DiscriminatorConfig::describe() const {
  return fmt::format("discriminator(channels={}, levels={})", channels, levels);
}

ImageDiscriminator::ImageDiscriminator(ParameterLayout& layout, const DiscriminatorConfig& config,
                                       const std::string& prefix, int loss)
    : config_(config) {
  config.check();
  const auto add = [&](const std::string& name, std::vector<int64_t> shape, int64_t out, int64_t stride) {
    const int weight = layout.add(prefix + name + ".weight", std::move(shape), loss);
    return Layer{.weight = weight, .bias = layout.add(prefix + name + ".bias", {out}, loss), .stride = stride};
  };
  int64_t in = kColours;
  for (int64_t level = 0; level < config.levels; ++level) {
    const int64_t out = config.channels * std::min(kMostTimes, int64_t{1} << level);
    for (const int64_t stride : {1, 2}) {
      const std::string name = fmt::format("conv{}", convolutions_.size());
      convolutions_.push_back(add(name, {kSide, kSide, in, out}, out, stride));
      in = out;
    }
  }
  dense_.push_back(add("linear1", {kUnits, in}, kUnits, 1));
  dense_.push_back(add("linear2", {1, kUnits}, 1, 1));
}

void ImageDiscriminator::initialize(const ParameterLayout& layout, std::span<float> weights, uint64_t seed) const {
  const auto draw = [&](const Layer& layer, int64_t fan_in) {
    initialize_parameter(layout, layer.weight, std::sqrt(2.0 / static_cast<double>(fan_in)), weights, seed);
  };
  const auto shape = [&](const Layer& layer) -> const std::vector<int64_t>& {
    return layout.parameters()[static_cast<size_t>(layer.weight)].shape;
  };
  for (const Layer& layer : convolutions_) draw(layer, kSide * kSide * shape(layer)[2]);
  for (const Layer& layer : dense_) draw(layer, shape(layer)[1]);
}

template <typename T>
Tensor<T> ImageDiscriminator::logits(Tape<T>& tape, const Tensor<T>& images) const {
  Tensor<T> x = images;
  const auto next = [&](const Tensor<T>& made) {
    if (x.values != images.values) tape.discard(x);
    x = made;
  };
  for (const Layer& layer : convolutions_) {
    next(conv2d(tape, x, tape.parameter(layer.weight), layer.stride));
    next(add_bias(tape, x, tape.parameter(layer.bias)));
    next(leaky_relu(tape, x, kSlope));
  }
  const auto sizes = x.shape.sizes();
  const int64_t positions = sizes[1] * sizes[2];
  auto* all = tape.template keep<int64_t>(sizes[0] * positions);
  std::fill_n(all, sizes[0] * positions, int64_t{1});
  x = mean_pool(tape, x.reshaped({sizes[0], positions, sizes[3]}),
                std::span<const int64_t>(all, static_cast<size_t>(sizes[0] * positions)));
  x = leaky_relu(tape, linear(tape, x, tape.parameter(dense_[0].weight), tape.parameter(dense_[0].bias)), kSlope);
  return linear(tape, x, tape.parameter(dense_[1].weight), tape.parameter(dense_[1].bias));
}

template Tensor<float> ImageDiscriminator::logits(Tape<float>&, const Tensor<float>&) const;
template Tensor<double> ImageDiscriminator::logits(Tape<double>&, const Tensor<double>&) const;

}  // namespace millrace

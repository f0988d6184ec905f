#include "millrace/trainer/models/vgg.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "millrace/formats/error.h"
#include "millrace/formats/safetensors/reader.h"
#include "millrace/formats/safetensors/writer.h"
#include "millrace/trainer/checkpoint/parameter_file.h"
#include "millrace/trainer/models/normal_weights.h"
#include "millrace/trainer/tensor/add.h"
#include "millrace/trainer/tensor/conv2d.h"
#include "millrace/trainer/tensor/in_place_of.h"
#include "millrace/trainer/tensor/max_pool2d.h"
#include "millrace/trainer/tensor/relu.h"

namespace millrace {
namespace {

constexpr int64_t kSide = 3;  // of a kernel
constexpr int64_t kPlaces = kSide * kSide;
constexpr int64_t kColours = 3;
// Of ImageNet's pictures, by colour, as torchvision has them.
constexpr std::array<double, kColours> kMean = {0.485, 0.456, 0.406};
constexpr std::array<double, kColours> kDeviation = {0.229, 0.224, 0.225};

[[noreturn]] void refuse(std::string message, const std::string& path = {}) {
  throw ErrorException({.code = ErrorCode::kInvalidArgument, .message = std::move(message), .shard = path});
}

// A convolution in a file.
struct FoundLayer {
  const StoredTensor* weight = nullptr;
  const StoredTensor* bias = nullptr;
};

std::string weight_name(int64_t layer) { return fmt::format("features.{}.weight", layer); }
std::string bias_name(int64_t layer) { return fmt::format("features.{}.bias", layer); }

// By their numbers; `others` gets the names that are not read.
std::map<int64_t, FoundLayer> find_layers(const SafetensorsFile& file, const std::string& path,
                                          std::vector<std::string>& others) {
  std::map<int64_t, FoundLayer> layers;
  for (const StoredTensor& tensor : file.tensors()) {
    const std::string& name = tensor.name;
    if (name.starts_with("classifier.")) {
      others.push_back(name);
      continue;
    }
    for (const char* end : {".running_mean", ".running_var", ".num_batches_tracked"}) {
      if (name.ends_with(end)) refuse(fmt::format("'{}' is of batch norm; a VGG without is needed", name), path);
    }
    constexpr std::string_view kFeatures = "features.";
    int64_t layer = -1;
    if (name.starts_with(kFeatures)) {
      std::from_chars(name.data() + kFeatures.size(), name.data() + name.size(), layer);
    }
    if (layer >= 0 && name == weight_name(layer)) {
      layers[layer].weight = &tensor;
    } else if (layer >= 0 && name == bias_name(layer)) {
      layers[layer].bias = &tensor;
    } else {
      refuse(fmt::format("'{}' is no tensor of a VGG (features.0.weight, features.0.bias, …)", name), path);
    }
  }
  return layers;
}

// `before`: the channels of the convolution before it.
void check_layer(int64_t layer, const FoundLayer& found, int64_t before, const std::string& path) {
  for (const auto& [tensor, name] :
       {std::pair(found.weight, weight_name(layer)), std::pair(found.bias, bias_name(layer))}) {
    if (tensor == nullptr) refuse(fmt::format("{} is missing", name), path);
  }
  const std::vector<int64_t>& weight = found.weight->shape;
  const std::vector<int64_t>& bias = found.bias->shape;
  if (weight.size() == 1) {
    refuse(fmt::format("{} has one dimension, as of batch norm; a VGG without is needed", weight_name(layer)), path);
  }
  if (weight.size() != 4 || weight[0] < 1 || weight[1] != before || weight[2] != kSide || weight[3] != kSide) {
    refuse(fmt::format("{} is [{}], expected [out, {}, 3, 3]", weight_name(layer), fmt::join(weight, ", "), before),
           path);
  }
  if (bias != std::vector{weight[0]}) {
    refuse(fmt::format("{} is [{}], expected [{}]", bias_name(layer), fmt::join(bias, ", "), weight[0]), path);
  }
}

// From the order of the file, [out, in, 3, 3], to ours, [3, 3, in, out].
void to_our_order(std::span<const float> from, int64_t in, int64_t out, std::span<float> to) {
  for (int64_t i = 0; i < std::ssize(from); ++i) {
    const int64_t place = i % kPlaces;
    const int64_t input = i / kPlaces % in;
    const int64_t output = i / kPlaces / in;
    to[static_cast<size_t>((place * in + input) * out + output)] = from[static_cast<size_t>(i)];
  }
}
// And back.
void to_file_order(std::span<const float> from, int64_t in, int64_t out, std::span<float> to) {
  for (int64_t i = 0; i < std::ssize(from); ++i) {
    const int64_t output = i % out;
    const int64_t input = i / out % in;
    const int64_t place = i / out / in;
    to[static_cast<size_t>((output * in + input) * kPlaces + place)] = from[static_cast<size_t>(i)];
  }
}

template <typename T>
Tensor<T> constant_of(Tape<T>& tape, const std::vector<float>& values, const TensorShape& shape) {
  if constexpr (std::is_same_v<T, float>) {
    return tape.constant(values.data(), shape);
  } else {
    T* copy = tape.template keep<T>(std::ssize(values));
    std::copy(values.begin(), values.end(), copy);
    return tape.constant(copy, shape);
  }
}

template <typename T>
Tensor<T> without_mean_and_deviation(Tape<T>& tape, const Tensor<T>& images) {
  const Tensor<T> y = tape.make(images.shape);
  for (int64_t i = 0; i < images.count(); ++i) {
    const auto colour = static_cast<size_t>(i % kColours);
    y.values[i] = (images.values[i] - static_cast<T>(kMean[colour])) / static_cast<T>(kDeviation[colour]);
  }
  tape.record({images}, y, [=](Tape<T>& t, const T* dy) {
    const GradientSlot<T> slot = t.gradient_of(images);
    for (int64_t i = 0; i < images.count(); ++i) {
      const T gradient = dy[i] / static_cast<T>(kDeviation[static_cast<size_t>(i % kColours)]);
      slot.values[i] = gradient + (slot.add ? slot.values[i] : 0);
    }
  });
  return y;
}

}  // namespace

Vgg Vgg::read(const std::string& path) {
  const SafetensorsFile file(path);
  std::vector<std::string> others;
  const std::map<int64_t, FoundLayer> layers = find_layers(file, path, others);
  if (layers.empty()) refuse("there is no convolution (features.0.weight, features.0.bias, …)", path);
  Vgg vgg;
  ParameterLayout layout;
  int64_t before = 0;  // the layer before
  for (const auto& [layer, found] : layers) {
    const bool first = vgg.convolutions_.empty();
    const bool pools = !first && layer == before + 3;
    if (first ? layer != 0 : !pools && layer != before + 2) {
      refuse(first ? fmt::format("the first convolution is features.{}, expected features.0", layer)
                   : fmt::format("features.{} comes after features.{}; the next convolution's number is 2 higher, or 3 "
                                 "with a pooling in between",
                                 layer, before),
             path);
    }
    check_layer(layer, found, first ? kColours : vgg.channels(), path);
    layout.add(weight_name(layer), found.weight->shape);
    layout.add(bias_name(layer), found.bias->shape);
    vgg.convolutions_.push_back({.in = found.weight->shape[1], .out = found.weight->shape[0], .pools = pools});
    before = layer;
  }
  layout.finish();
  const FlatBuffer values = read_weights(file.tensors(), path, layout, {.ignored = others});
  const auto values_of = [&](size_t id) {
    const Parameter& parameter = layout.parameters()[id];
    return values.span().subspan(static_cast<size_t>(parameter.offset), static_cast<size_t>(parameter.size));
  };
  for (size_t i = 0; i < vgg.convolutions_.size(); ++i) {
    Convolution& convolution = vgg.convolutions_[i];
    const std::span<const float> kernel = values_of(2 * i);
    const std::span<const float> bias = values_of(2 * i + 1);
    convolution.kernel.resize(kernel.size());
    to_our_order(kernel, convolution.in, convolution.out, convolution.kernel);
    convolution.bias.assign(bias.begin(), bias.end());
  }
  return vgg;
}

Vgg Vgg::drawn(const std::vector<std::vector<int64_t>>& blocks, uint64_t seed) {
  if (blocks.empty()) refuse("a VGG without a block");
  const CounterRng rng(seed, operator_id("vgg"));
  Vgg vgg;
  int64_t in = kColours;
  for (const std::vector<int64_t>& block : blocks) {
    if (block.empty()) refuse("a block of a VGG without a convolution");
    for (size_t place = 0; place < block.size(); ++place) {
      const int64_t out = block[place];
      if (out < 1) refuse(fmt::format("a convolution of a VGG with {} channels; at least 1", out));
      const bool pools = !vgg.convolutions_.empty() && place == 0;
      Convolution convolution{.in = in, .out = out, .pools = pools};
      convolution.kernel.resize(static_cast<size_t>(kPlaces * in * out));
      convolution.bias.resize(static_cast<size_t>(out));
      fill_normal(rng, vgg.convolutions_.size(), std::sqrt(2.0 / static_cast<double>(kPlaces * in)),
                  convolution.kernel);
      vgg.convolutions_.push_back(std::move(convolution));
      in = out;
    }
  }
  return vgg;
}

std::vector<int64_t> Vgg::layers() const {
  std::vector<int64_t> layers;
  for (const Convolution& convolution : convolutions_) {
    layers.push_back(layers.empty() ? 0 : layers.back() + (convolution.pools ? 3 : 2));
  }
  return layers;
}

void Vgg::write(const std::string& path) const {
  std::vector<std::vector<float>> kernels;  // in the file's order
  std::vector<NamedTensor> tensors;
  for (const Convolution& convolution : convolutions_) {
    const int64_t layer = layers()[kernels.size()];
    std::vector<float>& kernel = kernels.emplace_back(convolution.kernel.size());
    to_file_order(convolution.kernel, convolution.in, convolution.out, kernel);
    tensors.push_back({.name = weight_name(layer),
                       .shape = {convolution.out, convolution.in, kSide, kSide},
                       .bytes = std::as_bytes(std::span(kernel))});
    tensors.push_back(
        {.name = bias_name(layer), .shape = {convolution.out}, .bytes = std::as_bytes(std::span(convolution.bias))});
  }
  write_safetensors(path, tensors, {{"format", "pt"}});
}

int64_t Vgg::least_side(int64_t convolution) const {
  int64_t side = 1;
  for (int64_t i = 0; i <= convolution; ++i) side *= convolutions_[static_cast<size_t>(i)].pools ? 2 : 1;
  return side;
}

std::string Vgg::describe() const {
  std::string widths;
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (const Convolution& convolution : convolutions_) {
    widths += fmt::format("{}{}{}", widths.empty() ? "" : " ", convolution.pools ? "M " : "", convolution.out);
    for (const std::vector<float>& values : {std::cref(convolution.kernel), std::cref(convolution.bias)}) {
      XXH3_64bits_update(&state, values.data(), values.size() * sizeof(float));
    }
  }
  return fmt::format("vgg({}, xxh3 {:016x})", widths, XXH3_64bits_digest(&state));
}

template <typename T>
Tensor<T> Vgg::maps(Tape<T>& tape, const Tensor<T>& images, std::optional<int64_t> convolution) const {
  const int64_t last = convolution.value_or(convolutions() - 1);
  if (last < 0 || last >= convolutions()) {
    refuse(fmt::format("convolution {} of a VGG with {}, counted from 0", last, convolutions()));
  }
  const std::span<const int64_t> sizes = images.shape.sizes();
  const int64_t least = least_side(last);
  if (sizes.size() != 4 || sizes[3] != kColours || sizes[1] < least || sizes[2] < least) {
    throw ErrorException(
        ErrorCode::kWrongShape,
        fmt::format("images of a VGG are [{}]; expected [images, height, width, 3] with sides of at least {}",
                    fmt::join(sizes, ", "), least));
  }
  Tensor<T> x = without_mean_and_deviation(tape, images);
  const auto replace = [&](const auto& make) { x = in_place_of(tape, x, make); };
  for (int64_t number = 0; number <= last; ++number) {
    const Convolution& layer = convolutions_[static_cast<size_t>(number)];
    if (number > 0) replace([&](const Tensor<T>& from) { return relu(tape, from); });
    if (layer.pools) replace([&](const Tensor<T>& from) { return max_pool2d(tape, from); });
    replace([&](const Tensor<T>& from) {
      return conv2d(tape, from, constant_of(tape, layer.kernel, {kSide, kSide, layer.in, layer.out}));
    });
    replace([&](const Tensor<T>& from) { return add_bias(tape, from, constant_of(tape, layer.bias, {layer.out})); });
  }
  return x;
}

template Tensor<float> Vgg::maps(Tape<float>&, const Tensor<float>&, std::optional<int64_t>) const;
template Tensor<double> Vgg::maps(Tape<double>&, const Tensor<double>&, std::optional<int64_t>) const;

}  // namespace millrace

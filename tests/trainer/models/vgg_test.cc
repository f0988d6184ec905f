#include "millrace/trainer/models/vgg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "millrace/formats/safetensors/reader.h"
#include "millrace/formats/safetensors/writer.h"
#include "millrace/trainer/tensor/multiply.h"
#include "millrace/trainer/tensor/sum.h"
#include "tests/support/loaded_tensors.h"
#include "tests/support/temporary_folder.h"
#include "tests/trainer/toy_models.h"

namespace millrace::vgg_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;
using testing_models::thrown_by;

const std::vector<std::vector<int64_t>> kBlocks = {{4, 5}, {6}, {3, 7}};

// [channels, height, width], as PyTorch has a picture.
struct Map {
  int64_t channels = 0, height = 0, width = 0;
  std::vector<double> values = {};
  Map(int64_t c, int64_t h, int64_t w) : channels(c), height(h), width(w), values(static_cast<size_t>(c * h * w)) {}
  double& at(int64_t c, int64_t h, int64_t w) { return values[static_cast<size_t>((c * height + h) * width + w)]; }
  double around(int64_t c, int64_t h, int64_t w) {
    return h < 0 || w < 0 || h >= height || w >= width ? 0 : at(c, h, w);
  }
};

// torchvision's vgg.features with the tensors of a file, one loop after the other. `layers`: `C` and `M`; before the
// relu of the last C.
Map slow_maps(const SafetensorsFile& file, const std::string& layers, Map x) {
  constexpr std::array<double, 3> kMean = {0.485, 0.456, 0.406};
  constexpr std::array<double, 3> kDeviation = {0.229, 0.224, 0.225};
  for (int64_t c = 0; c < 3; ++c) {
    for (int64_t i = 0; i < x.height * x.width; ++i) {
      double& value = x.values[static_cast<size_t>(c * x.height * x.width + i)];
      value = (value - kMean[static_cast<size_t>(c)]) / kDeviation[static_cast<size_t>(c)];
    }
  }
  int number = 0;
  for (size_t place = 0; place < layers.size(); ++place) {
    if (layers[place] == 'M') {
      Map y(x.channels, x.height / 2, x.width / 2);
      for (int64_t c = 0; c < y.channels; ++c) {
        for (int64_t h = 0; h < y.height; ++h) {
          for (int64_t w = 0; w < y.width; ++w) {
            y.at(c, h, w) = std::max({x.at(c, 2 * h, 2 * w), x.at(c, 2 * h, 2 * w + 1), x.at(c, 2 * h + 1, 2 * w),
                                      x.at(c, 2 * h + 1, 2 * w + 1)});
          }
        }
      }
      x = y;
      ++number;
      continue;
    }
    const std::string name = "features." + std::to_string(number) + ".";
    const auto weight = file.values<float>(name + "weight");
    const auto bias = file.values<float>(name + "bias");
    Map y(std::ssize(bias), x.height, x.width);
    for (int64_t c = 0; c < y.channels; ++c) {
      for (int64_t h = 0; h < y.height; ++h) {
        for (int64_t w = 0; w < y.width; ++w) {
          double total = bias[static_cast<size_t>(c)];
          for (int64_t in = 0; in < x.channels; ++in) {
            for (int64_t kh = 0; kh < 3; ++kh) {
              for (int64_t kw = 0; kw < 3; ++kw) {
                total += weight[static_cast<size_t>(((c * x.channels + in) * 3 + kh) * 3 + kw)] *
                         x.around(in, h + kh - 1, w + kw - 1);
              }
            }
          }
          y.at(c, h, w) = place + 1 < layers.size() ? std::max(total, 0.0) : total;
        }
      }
    }
    x = y;
    number += 2;
  }
  return x;
}

Map drawn_image(int64_t height, int64_t width, int64_t seed) {
  Map image(3, height, width);
  for (size_t i = 0; i < image.values.size(); ++i) {
    image.values[i] = 0.5 + 0.5 * std::sin(1.7 * static_cast<double>(i) + static_cast<double>(seed));
  }
  return image;
}

// [height, width, channels]
template <typename T>
std::vector<T> channels_last(Map image) {
  std::vector<T> values;
  for (int64_t h = 0; h < image.height; ++h) {
    for (int64_t w = 0; w < image.width; ++w) {
      for (int64_t c = 0; c < image.channels; ++c) values.push_back(static_cast<T>(image.at(c, h, w)));
    }
  }
  return values;
}

const ParameterLayout& no_parameters() {
  static const ParameterLayout layout = [] {
    ParameterLayout made;
    made.finish();
    return made;
  }();
  return layout;
}

class VggFile : public testing::Test {
 protected:
  VggFile() { Vgg::drawn(kBlocks, 7).write(path()); }
  std::string path() const { return folder_.path("vgg.safetensors"); }

  // Reads what is written with one tensor changed, added or, without a shape, removed.
  std::string refusal(const std::string& name, const std::vector<int64_t>& shape = {}, float value = 0.5F) const {
    const test::LoadedTensors loaded(path());
    std::vector<NamedTensor> tensors = loaded.tensors();
    std::erase_if(tensors, [&](const NamedTensor& tensor) { return tensor.name == name; });
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    const std::vector<float> values(static_cast<size_t>(count), value);
    if (!shape.empty()) tensors.push_back({.name = name, .shape = shape, .bytes = std::as_bytes(std::span(values))});
    const std::string changed = folder_.path("changed.safetensors");
    write_safetensors(changed, tensors);
    const std::string message = thrown_by([&] { (void)Vgg::read(changed); });
    if (message != "nothing thrown") {
      EXPECT_THAT(message, AllOf(StartsWith("invalid_argument"), HasSubstr("changed.safetensors")));
    }
    return message;
  }

  const test::TemporaryFolder folder_;
};

TEST_F(VggFile, GivesTheMapsOfLoopsOverTheTensorsInTheFile) {
  const SafetensorsFile file(path());
  const Vgg vgg = Vgg::read(path());
  const Map first = drawn_image(9, 12, 1);
  const Map second = drawn_image(9, 12, 2);
  std::vector<float> images = channels_last<float>(first);
  const std::vector<float> more = channels_last<float>(second);
  images.insert(images.end(), more.begin(), more.end());
  Arena arena;
  Tape<float> tape(arena);
  const std::vector<std::string> layers = {"C", "CC", "CCMC", "CCMCMC", "CCMCMCC"};
  ASSERT_EQ(vgg.convolutions(), std::ssize(layers));
  for (int64_t number = 0; number < vgg.convolutions(); ++number) {
    tape.begin(no_parameters(), nullptr);
    const Tensor<float> maps = vgg.maps(tape, tape.constant(images.data(), {2, 9, 12, 3}), number);
    std::vector<float> expected;
    int64_t channels = 0;
    for (const Map& image : {first, second}) {
      const Map slow = slow_maps(file, layers[static_cast<size_t>(number)], image);
      EXPECT_THAT(maps.shape.sizes(), ElementsAre(2, slow.height, slow.width, slow.channels));
      channels = slow.channels;
      const std::vector<float> values = channels_last<float>(slow);
      expected.insert(expected.end(), values.begin(), values.end());
    }
    ASSERT_EQ(maps.count(), std::ssize(expected)) << channels;
    double largest = 0;
    for (const float value : expected) largest = std::max(largest, std::abs(static_cast<double>(value)));
    ASSERT_GT(largest, 0.1);
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(maps.values[i], expected[i], 1e-5 * largest) << number;
  }
  tape.begin(no_parameters(), nullptr);
  const Tensor<float> input = tape.constant(images.data(), {2, 9, 12, 3});
  const Tensor<float> last = vgg.maps(tape, input);
  EXPECT_THAT(last.shape.sizes(), ElementsAre(2, 2, 3, 7));
  EXPECT_EQ(vgg.channels(), 7);
  EXPECT_EQ(vgg.least_side(), 4);
}

TEST_F(VggFile, GivesGradientsOfTheImagesThatAreThoseOfCentralDifferences) {
  const Vgg vgg = Vgg::read(path());
  constexpr int64_t kHeight = 5;
  constexpr int64_t kWidth = 4;
  std::vector<double> images = channels_last<double>(drawn_image(kHeight, kWidth, 3));
  ParameterLayout layout;
  layout.add("images", {1, kHeight, kWidth, 3});
  layout.finish();
  images.resize(static_cast<size_t>(layout.size()));
  std::vector<double> gradients(images.size(), NAN);
  Arena arena;
  Tape<double> tape(arena);
  const auto loss = [&](Tape<double>::Gradients into) {
    tape.begin(layout, images.data(), into);
    const Tensor<double> maps = vgg.maps(tape, tape.parameter(0));
    return sum(tape, multiply(tape, maps, maps));
  };
  tape.backward(loss({.values = gradients.data()}));
  double largest = 0;
  for (size_t i = 0; i < kHeight * kWidth * 3; ++i) largest = std::max(largest, std::abs(gradients[i]));
  ASSERT_GT(largest, 1e-3);
  constexpr double kStep = 1e-5;
  for (size_t i = 0; i < kHeight * kWidth * 3; ++i) {
    const double before = images[i];
    images[i] = before + kStep;
    const double above = *loss({}).values;
    images[i] = before - kStep;
    const double below = *loss({}).values;
    images[i] = before;
    ASSERT_NEAR(gradients[i], (above - below) / (2 * kStep), 1e-6 * largest) << i;
  }
}

TEST_F(VggFile, IsReadAndWrittenToTheSameBytes) {
  const Vgg vgg = Vgg::read(path());
  EXPECT_EQ(vgg.describe(), Vgg::drawn(kBlocks, 7).describe());
  EXPECT_THAT(vgg.describe(), MatchesRegex("vgg\\(4 5 M 6 M 3 7, xxh3 [0-9a-f]{16}\\)"));
  vgg.write(folder_.path("again.safetensors"));
  EXPECT_EQ(test::read_file(folder_.path("again.safetensors")), test::read_file(path()));
  EXPECT_NE(Vgg::drawn(kBlocks, 8).describe(), vgg.describe());
  const SafetensorsFile file(path());
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const StoredTensor& tensor : file.tensors()) shapes[tensor.name] = tensor.shape;
  EXPECT_THAT(
      shapes,
      testing::UnorderedElementsAre(
          testing::Pair("features.0.weight", ElementsAre(4, 3, 3, 3)), testing::Pair("features.0.bias", ElementsAre(4)),
          testing::Pair("features.2.weight", ElementsAre(5, 4, 3, 3)), testing::Pair("features.2.bias", ElementsAre(5)),
          testing::Pair("features.5.weight", ElementsAre(6, 5, 3, 3)), testing::Pair("features.5.bias", ElementsAre(6)),
          testing::Pair("features.8.weight", ElementsAre(3, 6, 3, 3)), testing::Pair("features.8.bias", ElementsAre(3)),
          testing::Pair("features.10.weight", ElementsAre(7, 3, 3, 3)),
          testing::Pair("features.10.bias", ElementsAre(7))));
  // He's variance, roughly: 2 / (9 · 4).
  double squares = 0;
  const auto kernel = file.values<float>("features.2.weight");
  for (const float value : kernel) squares += static_cast<double>(value) * value;
  EXPECT_NEAR(squares / static_cast<double>(kernel.size()), 2.0 / 36, 0.02);
}

TEST_F(VggFile, WidensBfloat16AndPassesOverTheClassifier) {
  const test::LoadedTensors loaded(path());
  std::vector<NamedTensor> tensors = loaded.tensors();
  std::vector<std::vector<std::byte>> halves;
  std::vector<std::vector<float>> rounded;
  std::vector<NamedTensor> widened = tensors;
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::vector<std::byte>& half = halves.emplace_back();
    std::vector<float>& floats = rounded.emplace_back(tensors[i].bytes.size() / sizeof(float));
    for (size_t value = 0; value < floats.size(); ++value) {
      const std::byte* from = tensors[i].bytes.data() + sizeof(float) * value;
      half.insert(half.end(), {from[2], from[3]});
      const std::array<std::byte, 4> kept = {std::byte{0}, std::byte{0}, from[2], from[3]};
      std::memcpy(&floats[value], kept.data(), sizeof(float));
    }
    tensors[i].type = TensorType::kBF16;
    tensors[i].bytes = half;
    widened[i].bytes = std::as_bytes(std::span(floats));
  }
  const std::vector<float> classifier(6);
  tensors.push_back({.name = "classifier.0.weight", .shape = {2, 3}, .bytes = std::as_bytes(std::span(classifier))});
  write_safetensors(folder_.path("half.safetensors"), tensors);
  write_safetensors(folder_.path("widened.safetensors"), widened);
  EXPECT_EQ(Vgg::read(folder_.path("half.safetensors")).describe(),
            Vgg::read(folder_.path("widened.safetensors")).describe());
}

TEST_F(VggFile, IsRefusedWhereItIsNoneOrAnother) {
  EXPECT_EQ(refusal("classifier.6.bias", {3}), "nothing thrown");
  EXPECT_THAT(refusal("features.1.running_mean", {4}), HasSubstr("'features.1.running_mean' is of batch norm"));
  EXPECT_THAT(refusal("features.2.weight", {5}), HasSubstr("features.2.weight has one dimension, as of batch norm"));
  EXPECT_THAT(refusal("conv1.weight", {4}), HasSubstr("'conv1.weight' is no tensor of a VGG"));
  EXPECT_THAT(refusal("features.02.weight", {4}), HasSubstr("'features.02.weight' is no tensor of a VGG"));
  EXPECT_THAT(refusal("features.5.bias"), HasSubstr("features.5.bias is missing"));
  EXPECT_THAT(refusal("features.5.bias", {5}), HasSubstr("features.5.bias is [5], expected [6]"));
  EXPECT_THAT(refusal("features.5.weight", {6, 4, 3, 3}),
              HasSubstr("features.5.weight is [6, 4, 3, 3], expected [out, 5, 3, 3]"));
  EXPECT_THAT(refusal("features.5.weight", {6, 5, 5, 5}), HasSubstr("expected [out, 5, 3, 3]"));
  EXPECT_THAT(refusal("features.12.weight", {2, 7, 3, 3}), HasSubstr("features.12.bias is missing"));
  EXPECT_THAT(refusal("features.14.weight", {2, 7, 3, 3}),
              HasSubstr("features.14 comes after features.10; the next convolution's number is 2 higher"));
  EXPECT_THAT(refusal("features.11.weight", {2, 7, 3, 3}), HasSubstr("features.11 comes after features.10"));
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    EXPECT_THAT(refusal("features.8.bias", {3}, bad), HasSubstr("tensor 'features.8.bias' is not finite"));
  }
  write_safetensors(folder_.path("changed.safetensors"), std::vector<NamedTensor>());
  EXPECT_THAT(thrown_by([&] { (void)Vgg::read(folder_.path("changed.safetensors")); }),
              HasSubstr("there is no convolution"));
  EXPECT_THAT(thrown_by([&] { (void)Vgg::read(folder_.path("none")); }), StartsWith("io: "));
  const std::vector<float> kernel(54, 1.0F);
  write_safetensors(
      folder_.path("changed.safetensors"),
      std::vector<NamedTensor>{
          {.name = "features.1.weight", .shape = {2, 3, 3, 3}, .bytes = std::as_bytes(std::span(kernel))}});
  EXPECT_THAT(thrown_by([&] { (void)Vgg::read(folder_.path("changed.safetensors")); }),
              HasSubstr("the first convolution is features.1, expected features.0"));
}

TEST(Vgg, HoldsAFewMapsWhereNothingIsRecorded) {
  const std::vector<float> image(256 * 256 * 3, 0.5F);
  float gradients = 0;
  const auto memory = [&](size_t convolutions, bool no_grad) {
    const Vgg vgg = Vgg::drawn({std::vector<int64_t>(convolutions, 16)}, 1);
    Arena arena;
    Tape<float> tape(arena);
    tape.begin(no_parameters(), nullptr, {.values = no_grad ? &gradients : nullptr});
    std::optional<Tape<float>::NoGrad> guard;
    if (no_grad) guard.emplace(tape);
    (void)vgg.maps(tape, tape.constant(image.data(), {1, 256, 256, 3}));
    return arena.capacity();
  };
  for (const bool no_grad : {false, true}) EXPECT_EQ(memory(12, no_grad), memory(3, no_grad));
}

TEST(Vgg, RefusesImagesThatAreTooSmallAndWhatIsNotThere) {
  const Vgg vgg = Vgg::drawn(kBlocks, 1);
  Arena arena;
  Tape<float> tape(arena);
  const std::vector<float> values(4 * 4 * 3);
  const auto refusal = [&](const TensorShape& shape, std::optional<int64_t> convolution = {}) {
    return thrown_by([&] {
      tape.begin(no_parameters(), nullptr);
      (void)vgg.maps(tape, tape.constant(values.data(), shape), convolution);
    });
  };
  EXPECT_EQ(refusal({1, 4, 4, 3}), "nothing thrown");
  EXPECT_THAT(refusal({1, 3, 4, 3}), AllOf(StartsWith("wrong_shape"), HasSubstr("[1, 3, 4, 3]; expected"),
                                           HasSubstr("with sides of at least 4")));
  EXPECT_THAT(refusal({1, 4, 3, 3}), StartsWith("wrong_shape"));
  EXPECT_EQ(refusal({1, 2, 3, 3}, 2), "nothing thrown");  // one pooling before it
  EXPECT_THAT(refusal({1, 4, 4, 1}), StartsWith("wrong_shape"));
  EXPECT_THAT(refusal({4, 4, 3}), StartsWith("wrong_shape"));
  EXPECT_THAT(refusal({1, 4, 4, 3}, 5), HasSubstr("convolution 5 of a VGG with 5, counted from 0"));
  EXPECT_THAT(refusal({1, 4, 4, 3}, -1), HasSubstr("convolution -1 of a VGG with 5"));
  EXPECT_THAT(thrown_by([] { (void)Vgg::drawn({}, 1); }), HasSubstr("a VGG without a block"));
  EXPECT_THAT(thrown_by([] { (void)Vgg::drawn({{4}, {}}, 1); }), HasSubstr("without a convolution"));
  EXPECT_THAT(thrown_by([] { (void)Vgg::drawn({{4, 0}}, 1); }), HasSubstr("with 0 channels; at least 1"));
}

}  // namespace
}  // namespace millrace::vgg_test

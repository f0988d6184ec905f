#include "examples/frozen_features/feature_extractor.h"

#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "tests/trainer/toy_models.h"

namespace millrace::feature_extractor_test {
namespace {

std::vector<float> drawn_pixels(int64_t height, int64_t width, int seed) {
  std::vector<float> pixels;
  for (int64_t i = 0; i < height * width * 3; ++i) {
    pixels.push_back(static_cast<float>(127.5 + 127.5 * std::sin(1.7 * static_cast<double>(i) + seed)));
  }
  return pixels;
}

TEST(FeatureExtractor, GivesTheMeansOfTheLastMapsAfterTheRelu) {
  const Vgg network = Vgg::drawn({{4}, {6}}, 3);
  const FeatureExtractor extractor(network);
  EXPECT_EQ(extractor.length(), 6);
  const std::vector<float> pixels = drawn_pixels(7, 10, 1);
  std::vector<double> images(pixels.begin(), pixels.end());
  for (double& value : images) value /= 255;
  ParameterLayout none;
  none.finish();
  Arena arena;
  Tape<double> tape(arena);
  tape.begin(none, nullptr);
  const Tensor<double> maps = network.maps(tape, tape.constant(images.data(), {1, 7, 10, 3}));
  ASSERT_EQ(maps.rows(), 3 * 5);
  std::vector<float> features(6);
  extractor.extract(pixels, 7, 10, features);
  int positive = 0;
  for (int64_t channel = 0; channel < 6; ++channel) {
    double sum = 0;
    for (int64_t position = 0; position < maps.rows(); ++position) {
      sum += std::max(0.0, maps.values[position * 6 + channel]);
    }
    positive += sum > 0 ? 1 : 0;
    EXPECT_NEAR(features[static_cast<size_t>(channel)], sum / static_cast<double>(maps.rows()), 1e-5);
  }
  EXPECT_GT(positive, 2);
  EXPECT_THAT(testing_models::thrown_by([&] { extractor.extract(drawn_pixels(1, 9, 1), 1, 9, features); }),
              testing::StartsWith("wrong_shape"));
}

TEST(FeatureExtractor, GivesEachOfManyThreadsWhatItGivesOne) {
  const FeatureExtractor extractor(Vgg::drawn({{4}, {6}}, 3));
  constexpr int kPictures = 40;
  std::vector<std::vector<float>> alone(kPictures, std::vector<float>(6));
  std::vector<std::vector<float>> together = alone;
  // Of unlike sizes, so that memory is used again for other shapes.
  const auto extract = [&](int picture, std::vector<float>& features) {
    const int64_t side = 6 + picture % 5;
    extractor.extract(drawn_pixels(side, 9, picture), side, 9, features);
  };
  for (int picture = 0; picture < kPictures; ++picture) extract(picture, alone[static_cast<size_t>(picture)]);
  std::vector<std::thread> threads;
  for (int first = 0; first < 4; ++first) {
    threads.emplace_back([&, first] {
      for (int picture = first; picture < kPictures; picture += 4)
        extract(picture, together[static_cast<size_t>(picture)]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(together, alone);
}

}  // namespace
}  // namespace millrace::feature_extractor_test

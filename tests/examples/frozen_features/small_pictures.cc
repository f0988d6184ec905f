#include "tests/examples/frozen_features/small_pictures.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "millrace/formats/random/counter_rng.h"
#include "tests/support/encoded_pictures.h"
#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"

namespace millrace::test {

void draw_pictures(const std::string& folder, int of_each) {
  const CounterRng rng(1, operator_id("small_pictures"));
  for (size_t label = 0; label < kPictureClasses.size(); ++label) {
    for (int number = 0; number < of_each; ++number) {
      const CounterRng::Words words = rng.words(label, static_cast<uint64_t>(number));
      Picture picture{
          .height = 18 + static_cast<int>(words[0] % 9), .width = 16 + static_cast<int>(words[1] % 12), .channels = 3};
      for (int row = 0; row < picture.height; ++row) {
        for (int column = 0; column < picture.width; ++column) {
          const bool dark = label == 0 ? false : label == 1 ? row % 4 < 2 && column % 4 < 2 : row % 4 < 2;
          for (uint32_t channel = 0; channel < 3; ++channel) {
            const uint32_t shade = (words[2] >> 8 * channel) % 60;
            picture.pixels.push_back(static_cast<uint8_t>((dark ? 20 : 170) + shade));
          }
        }
      }
      const std::string below = number % 3 == 0 ? "more/" : "";
      std::filesystem::create_directories(fmt::format("{}/{}/{}", folder, kPictureClasses[label], below));
      const bool is_png = number % 2 == 0;
      write_file(fmt::format("{}/{}/{}{}.{}", folder, kPictureClasses[label], below, number, is_png ? "png" : "JPG"),
                 is_png ? written_png(picture) : written_jpeg(picture));
    }
  }
}

Vgg small_network() { return Vgg::drawn({{8}, {24}}, 3); }

std::vector<std::string> small_preparation(const std::string& pictures, const std::string& network,
                                           const std::string& out) {
  return {kPrepareFrozenFeatures,
          "--pictures",
          pictures,
          "--features",
          network,
          "--out",
          out,
          "--size",
          "16",
          "--threads",
          "2"};
}

std::vector<std::string> small_training(const std::string& set, const std::string& out) {
  return {kTrainFrozenFeatures,
          "--set",
          set,
          "--out",
          out,
          "--steps",
          "40",
          "--global-batch",
          "10",
          "--report-every",
          "1",
          "--checkpoint-every",
          "7",
          "--threads",
          "2"};
}

}  // namespace millrace::test

#include "tests/examples/super_resolution/small_pictures.h"

#include <filesystem>

#include "millrace/formats/image/png_writer.h"
#include "millrace/formats/random/counter_rng.h"
#include "tests/support/temporary_folder.h"

namespace millrace::test {

RgbImage<uint8_t> drawn_image(int64_t height, int64_t width, uint64_t seed) {
  const CounterRng rng(seed, operator_id("drawn_image"));
  RgbImage<uint8_t> image{.height = height, .width = width};
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      const auto noise = rng.words(static_cast<uint64_t>(y * width + x));
      const int64_t stripe = (x + y / 2) / (3 + static_cast<int64_t>(seed % 5)) % 2 * 60;
      for (int64_t c = 0; c < kColours; ++c) {
        const int64_t gradient = (c == 0   ? x * 100 / width
                                  : c == 1 ? y * 100 / height
                                           : (x + y) * 50 / (height + width));
        const auto value = gradient + stripe + static_cast<int64_t>(uniform_below(noise[static_cast<size_t>(c)], 40));
        image.pixels.push_back(static_cast<uint8_t>(value));
      }
    }
  }
  return image;
}

void write_picture(const std::string& path, const RgbImage<uint8_t>& image) {
  write_file(path, write_png(image.pixels, image.height, image.width, kColours));
}

void write_generator(const std::string& folder, const GeneratorConfig& config, uint64_t seed) {
  ParameterLayout layout;
  const ImageGenerator generator(layout, config);
  layout.finish();
  FlatBuffer weights(layout.size());
  generator.initialize(layout, weights.span(), seed);
  std::filesystem::create_directories(folder);
  save_generator_config(folder, config);
  save_generator_weights(folder, layout, generator, weights.span());
}

}  // namespace millrace::test

#pragma once

#include <cstdint>
#include <string>

#include "examples/super_resolution/rgb_image.h"
#include "millrace/trainer/models/image_generator.h"

namespace millrace::test {

/// A gradient, stripes and noise; another picture for each seed.
RgbImage<uint8_t> drawn_image(int64_t height, int64_t width, uint64_t seed);
/// Writes it as PNG.
void write_picture(const std::string& path, const RgbImage<uint8_t>& image);

/// Writes a generator with start values that are large enough to be seen.
void write_generator(const std::string& folder, const GeneratorConfig& config, uint64_t seed = 1);

}  // namespace millrace::test

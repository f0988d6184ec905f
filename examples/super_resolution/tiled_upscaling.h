#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <boost/program_options.hpp>

#include "examples/super_resolution/rgb_image.h"
#include "millrace/trainer/models/image_generator.h"

namespace millrace {

/// What makes images 4 times larger.
struct Upscaler {
  /// The pixels of an image `[height, width, 3]` to those of `[4 height, 4 width, 3]`; any number of threads at once.
  std::function<std::vector<float>(std::span<const float> pixels, int64_t height, int64_t width)> upscale;
  int64_t radius = 0;  ///< pixels around one beyond which nothing reaches what is made of it
};

/// A generator, which must outlive it.
[[nodiscard]] Upscaler upscaler_of(const TrainedGenerator& generator);

struct Tiling {
  int64_t tile = 128;  ///< pixels of a side of the image that are made at once. Default: 128
  /// Pixels of the image around a tile that are read with it, no more than the upscaler's radius; at the image's border
  /// there are none, as without tiles. Default: 32
  int64_t overlap = 32;
  int threads = 0;                                                       ///< 0: one for each core. Default: 0
  std::function<bool()> stop_requested = nullptr;                        ///< Default: none
  std::function<void(int64_t done, int64_t all)> on_progress = nullptr;  ///< gets tiles. Default: none
};

/// Adds `--tile`, `--overlap` and `--threads`.
void add_tiling_options(boost::program_options::options_description& options, Tiling& tiling);

/// Makes an image 4 times larger, tile by tile. `take_rows` gets the rows of the result in order, those of a row of
/// tiles at once: what is in memory beside the image does not grow with its height. What is made does not depend on the
/// threads; with an overlap of the radius it is what the whole image would give, but for rounding. False when it was
/// stopped. Throws what the functions throw.
bool upscale_in_tiles(const RgbImage<float>& image, const Upscaler& upscaler, const Tiling& tiling,
                      const std::function<void(std::span<const float> rows)>& take_rows);
/// The whole result, rounded to bytes.
[[nodiscard]] RgbImage<uint8_t> upscaled(const RgbImage<float>& image, const Upscaler& upscaler, const Tiling& tiling);

}  // namespace millrace

#include "examples/super_resolution/tiled_upscaling.h"

#include <algorithm>

#include "millrace/command_line/number_options.h"
#include "millrace/pipeline/run/executor.h"
#include "millrace/trainer/run/ordered_work.h"

namespace millrace {
namespace {

// On its way through the work.
struct TileInFlight {
  ImageRegion region = {};  // of the image
  RgbImage<float> made = {};
};

// What is made of a tile.
RgbImage<float> made_of(const RgbImage<float>& image, const ImageRegion& tile, const Upscaler& upscaler,
                        int64_t most_overlap) {
  const int64_t overlap = std::min(most_overlap, upscaler.radius);
  ImageRegion read{.top = std::max<int64_t>(0, tile.top - overlap), .left = std::max<int64_t>(0, tile.left - overlap)};
  read.height = std::min(image.height, tile.top + tile.height + overlap) - read.top;
  read.width = std::min(image.width, tile.left + tile.width + overlap) - read.left;
  RgbImage<float> made{.height = kUpscaling * read.height, .width = kUpscaling * read.width};
  made.pixels = upscaler.upscale(cropped(image, read).pixels, read.height, read.width);
  return cropped(made, {.top = kUpscaling * (tile.top - read.top),
                        .left = kUpscaling * (tile.left - read.left),
                        .height = kUpscaling * tile.height,
                        .width = kUpscaling * tile.width});
}

}  // namespace

Upscaler upscaler_of(const TrainedGenerator& generator) {
  return {.upscale = [&generator](std::span<const float> pixels, int64_t height,
                                  int64_t width) { return generator.upscale(pixels, height, width); },
          .radius = generator.generator().radius()};
}

void add_tiling_options(boost::program_options::options_description& options, Tiling& tiling) {
  // clang-format off
  options.add_options()
      ("tile", whole_number(tiling.tile, {16, 4096}), "pixels of a side of the smaller picture that are made larger at once: memory")
      ("overlap", whole_number(tiling.overlap, {0, 4096}), "pixels around a tile that are read with it, at most as many as "
       "the model can see")
      ("threads", whole_number(tiling.threads, {0, limits::kThreads}), "tiles at a time; 0: one for each core. Results do not depend "
       "on it");
  // clang-format on
}

bool upscale_in_tiles(const RgbImage<float>& image, const Upscaler& upscaler, const Tiling& tiling,
                      const std::function<void(std::span<const float> rows)>& take_rows) {
  const int64_t across = (image.width + tiling.tile - 1) / tiling.tile;
  const int64_t num_tiles = across * ((image.height + tiling.tile - 1) / tiling.tile);
  const int64_t row_size = kUpscaling * image.width * kColours;
  std::vector<float> rows;
  int64_t num_read = 0;
  int64_t num_done = 0;
  return work_in_order<TileInFlight>(
      checked_threads(tiling.threads), tiling.stop_requested,
      [&](TileInFlight& tile) {
        if (num_read == num_tiles) return false;
        const int64_t top = num_read / across * tiling.tile;
        const int64_t left = num_read % across * tiling.tile;
        tile.region = {top, left, std::min(tiling.tile, image.height - top), std::min(tiling.tile, image.width - left)};
        ++num_read;
        return true;
      },
      [&](TileInFlight& tile) { tile.made = made_of(image, tile.region, upscaler, tiling.overlap); },
      [&](TileInFlight& tile) {
        rows.resize(static_cast<size_t>(tile.made.height * row_size));
        for (int64_t row = 0; row < tile.made.height; ++row) {
          std::copy_n(tile.made.pixels.begin() + row * tile.made.width * kColours, tile.made.width * kColours,
                      rows.begin() + row * row_size + kUpscaling * tile.region.left * kColours);
        }
        if (tile.region.left + tile.region.width == image.width) take_rows(rows);
        if (tiling.on_progress) tiling.on_progress(++num_done, num_tiles);
      });
}

RgbImage<uint8_t> upscaled(const RgbImage<float>& image, const Upscaler& upscaler, const Tiling& tiling) {
  RgbImage<uint8_t> result{.height = kUpscaling * image.height, .width = kUpscaling * image.width};
  upscale_in_tiles(image, upscaler, tiling, [&](std::span<const float> rows) {
    const size_t begin = result.pixels.size();
    result.pixels.resize(begin + rows.size());
    round_to_bytes(rows, std::span(result.pixels).subspan(begin));
  });
  return result;
}

}  // namespace millrace

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "millrace/formats/image/image.h"

namespace millrace {

// What pixels are wanted: see DecodeOptions.
struct PixelForm {
  int channels;  // 1 to 4; 2 only of pictures that have them
  std::optional<std::array<uint8_t, 3>> background;
  int scale_denominator;
};

// Reads pictures of one format as they are stored, never turned. After an error of `read` it may be called again.
class PictureReader {
 public:
  PictureReader() = default;
  PictureReader(const PictureReader&) = delete;
  PictureReader& operator=(const PictureReader&) = delete;
  virtual ~PictureReader() = default;

  // `bytes`, of the right format and alive until the last `read`.
  virtual ImageInfo start(std::string_view bytes, const ImageLimits& limits) = 0;
  // `region` lies inside the (scaled) picture and has as many pixels as `pixels` has room for.
  virtual void read(const ImageRegion& region, const PixelForm& form, std::span<uint8_t> pixels) = 0;
};

// Throws `out_of_range` for more than the limit.
void check_pixels(int64_t height, int64_t width, const ImageLimits& limits);

// Of colours that are not linear, as JPEG defines it (ITU-T T.871): 0.299 red + 0.587 green + 0.114 blue.
constexpr uint8_t grey_of(int red, int green, int blue) {
  return static_cast<uint8_t>((19595 * red + 38470 * green + 7471 * blue + 32768) >> 16);
}

}  // namespace millrace

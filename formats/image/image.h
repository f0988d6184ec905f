#pragma once

#include <cstdint>
#include <string_view>

namespace millrace {

/// How a picture is stored. Recognised by its first bytes, never by a name.
enum class ImageFormat { kJpeg, kPng };

/// `JPEG`, `PNG`.
std::string_view to_string(ImageFormat format);

/// What a picture may ask for, checked before memory is taken for its pixels. A picture beyond a limit is the error
/// `out_of_range`.
struct ImageLimits {
  /// Height times width of the stored picture. Default: 2^28, more than the 200 megapixels of the largest photographs
  int64_t most_pixels = int64_t{1} << 28;
  /// Scans of a JPEG with several, as progressive ones have: each may pass over the whole picture and take a few bytes
  /// of the file. Encoders write about ten. Default: 500
  int64_t most_scans = 500;
  /// Scans times pixels, which decoding takes time for. Default: 2^32, 21 scans of 200 megapixels
  int64_t most_scanned_pixels = int64_t{1} << 32;
};

/// What the header of a picture says.
struct ImageInfo {
  ImageFormat format = ImageFormat::kJpeg;
  int64_t height = 0;  ///< as stored, before it is turned upright
  int64_t width = 0;
  /// 1 grey, 2 grey and alpha, 3 red, green, blue, 4 these and alpha: what TensorFlow's `decode_image` gives. A palette
  /// counts as the colours in it (with alpha where one has some); a colour of a grey or RGB PNG that means transparent
  /// does not count; CMYK counts as 3.
  int channels = 0;
  /// EXIF: how the stored picture becomes upright. 1 as it is, 2 mirrored, 3 turned by 180 degrees, 4 mirrored upside
  /// down, 5 transposed, 6 turned clockwise by 90 degrees, 7 transposed along the other diagonal, 8 turned by 90
  /// degrees the other way. 1 where the file does not say or says something else.
  int orientation = 1;

  friend bool operator==(const ImageInfo&, const ImageInfo&) = default;
};

/// A rectangle of pixels.
struct ImageRegion {
  int64_t top = 0;
  int64_t left = 0;
  int64_t height = 0;
  int64_t width = 0;

  friend bool operator==(const ImageRegion&, const ImageRegion&) = default;
};

}  // namespace millrace

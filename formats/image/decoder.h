#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "millrace/formats/image/image.h"

namespace millrace {

/// How a picture becomes pixels.
struct DecodeOptions {
  /// 1 grey, 3 red, green, blue, 4 these and alpha (255 where the picture has none); 0 as `ImageInfo::channels` says.
  /// Default: 0
  int channels = 0;
  /// A colour (red, green, blue) over which pixels are laid that are not opaque; the result has no alpha then, and
  /// `channels` is not 4. Default: none; alpha that is not asked for is dropped, as in TensorFlow
  std::optional<std::array<uint8_t, 3>> background = std::nullopt;
  /// Whether the picture is turned upright, as its EXIF orientation says. TensorFlow does not. Default: false
  bool applies_orientation = false;
  /// 1, 2, 4 or 8: a JPEG is decoded to ⌈size / scale⌉ pixels, in less time. A PNG has its own size always.
  /// Default: 1
  int scale_denominator = 1;
  ImageLimits limits = {};  ///< Default: see there
};

class PictureReader;

/// Decodes one picture after the other, whole or in part, from bytes to 8 bit pixels.
///
///     ImageDecoder decoder;
///     decoder.start(bytes, {.channels = 3});
///     std::vector<uint8_t> pixels(decoder.num_bytes());
///     decoder.decode(decoder.whole(), pixels);
///
/// Pixels are those of TensorFlow 2.21: `decode_jpeg` with `INTEGER_ACCURATE` and fancy upsampling, `decode_png` with
/// uint8. So gamma and colour profiles are ignored, but where a PNG with a gamma becomes grey; of 16 bits the higher 8
/// are given; CMYK is converted without a profile. Other than in TensorFlow, alpha that is made up is opaque at every
/// depth, and CMYK becomes grey.
///
/// Errors are ErrorExceptions: `truncated` where the bytes end too early, `parse` where they are no JPEG or PNG or are
/// damaged, `out_of_range` beyond a limit, `invalid_argument` for options and regions that cannot be. A JPEG whose
/// data is damaged and of which libjpeg makes something is an error, too; TensorFlow takes it. Data that no pixel is
/// made of does not matter to either (`extraneous bytes before marker`). That the end of a JPEG is not marked is an
/// error only where scans may be missing; TensorFlow refuses it. What comes after the last row of a region is not read,
/// so damage there is not seen. One thread at a time.
class ImageDecoder {
 public:
  ImageDecoder();
  ~ImageDecoder();
  ImageDecoder(ImageDecoder&&) noexcept;
  ImageDecoder& operator=(ImageDecoder&&) noexcept;

  /// Reads the header. `bytes` must live until the last `decode`.
  const ImageInfo& start(std::string_view bytes, const DecodeOptions& options = {});
  /// Another `scale_denominator`, which may depend on what `start` found.
  void set_scale_denominator(int denominator);

  const ImageInfo& info() const { return info_; }
  /// Of what is decoded: scaled, and upright where orientation is applied.
  int64_t height() const { return height_; }
  int64_t width() const { return width_; }
  int channels() const { return channels_; }
  ImageRegion whole() const { return {0, 0, height_, width_}; }
  /// Of `whole()`: height × width × channels.
  int64_t num_bytes() const { return height_ * width_ * channels_; }

  /// Writes the pixels of a region that is not empty and lies inside `whole()`, height × width × channels, row after
  /// row; `pixels` has just this size. Every pixel is the same as in the whole picture, and what lies outside is
  /// decoded only as far as that takes. May be called again, for the same picture. After an error the bytes of `pixels`
  /// are undefined.
  void decode(const ImageRegion& region, std::span<uint8_t> pixels);

 private:
  void set_size();

  std::unique_ptr<PictureReader> jpeg_;
  std::unique_ptr<PictureReader> png_;
  PictureReader* reader_ = nullptr;  // one of them; null before `start` and after it failed
  DecodeOptions options_;
  ImageInfo info_;
  int64_t height_ = 0;
  int64_t width_ = 0;
  int channels_ = 0;
  std::vector<uint8_t> stored_pixels_;  // of a region that is to be turned
};

/// The header of a picture. The same errors as `ImageDecoder::start`.
[[nodiscard]] ImageInfo read_image_info(std::string_view bytes, const ImageLimits& limits = {});

}  // namespace millrace

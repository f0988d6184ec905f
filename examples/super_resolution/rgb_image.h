#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "millrace/formats/image/image.h"

namespace millrace {

/// Values of a pixel.
inline constexpr int64_t kColours = 3;

/// Pixels `[height, width, 3]`, red, green and blue: uint8, or float from 0 to 1.
template <typename T>
struct RgbImage {
  int64_t height = 0;
  int64_t width = 0;
  std::vector<T> pixels = {};

  size_t row_size() const { return static_cast<size_t>(width * kColours); }
};

/// The files that paths stand for, each once: those that are named, and of folders the files `*.jpg`, `*.jpeg` and
/// `*.png` (in any case) in them, in the order of their names. Throws `kIo` for a folder that cannot be read.
[[nodiscard]] std::vector<std::string> listed_pictures(const std::vector<std::string>& paths);
/// The name of a picture: that of its file, without folders and ending.
[[nodiscard]] std::string picture_name(const std::string& path);

/// Decodes a JPEG or PNG, turned upright. Grey becomes three equal values, what is not opaque is laid over white.
/// Throws as ImageDecoder, naming `path`.
[[nodiscard]] RgbImage<uint8_t> decode_picture(const std::string& bytes, const std::string& path);
/// The same of a file or URL.
[[nodiscard]] RgbImage<uint8_t> read_picture(const std::string& path);

/// Divided by 255.
[[nodiscard]] RgbImage<float> to_floats(const RgbImage<uint8_t>& image);
/// Times 255, rounded, and cut to 0 to 255.
void round_to_bytes(std::span<const float> values, std::span<uint8_t> bytes);
[[nodiscard]] RgbImage<uint8_t> to_bytes(const RgbImage<float>& image);

/// The pixels of a region that lies in the image.
template <typename T>
[[nodiscard]] RgbImage<T> cropped(const RgbImage<T>& image, const ImageRegion& region);
extern template RgbImage<uint8_t> cropped(const RgbImage<uint8_t>&, const ImageRegion&);
extern template RgbImage<float> cropped(const RgbImage<float>&, const ImageRegion&);

/// `resize` with `kBicubic` and `antialias`, cut to 0 to 1.
[[nodiscard]] RgbImage<float> bicubic(const RgbImage<float>& image, int64_t height, int64_t width);
/// The image `factor` times smaller, without the last rows and columns where sides are no multiples of it.
[[nodiscard]] RgbImage<uint8_t> shrunk(const RgbImage<uint8_t>& image, int64_t factor);

}  // namespace millrace

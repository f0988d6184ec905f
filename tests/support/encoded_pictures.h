#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::test {

/// 8 bit pixels, height × width × channels.
struct Picture {
  int height = 0;
  int width = 0;
  int channels = 0;
  std::vector<uint8_t> pixels = {};
};

/// Waves, edges and noise, no two rows or columns alike.
Picture drawn_picture(int height, int width, int channels, unsigned seed = 1);
/// Height × width × channels of a rectangle inside.
std::vector<uint8_t> pixels_of(const Picture& picture, int top, int left, int height, int width);

/// How libjpeg writes a picture of 1 (grey), 3 (YCbCr) or 4 (CMYK) channels.
struct JpegForm {
  int quality = 85;
  int horizontal_sampling = 1;  ///< of the first component against the others: 2 and 2 are 4:2:0, 1 and 2 are 4:4:0
  int vertical_sampling = 1;
  bool progressive = false;
  bool scan_for_each_component = false;
  bool optimized_tables = false;
  bool arithmetic = false;
  int restart_interval = 0;  ///< in MCUs
};
std::string written_jpeg(const Picture& picture, const JpegForm& form = {});

/// With a segment after the start of the picture: `content` without the length.
std::string with_segment(std::string_view jpeg, uint8_t marker, std::string_view content);
/// Where the nth marker of this kind stands, from 0, the content of segments included; npos where it has fewer.
size_t place_of_marker(std::string_view jpeg, uint8_t marker, size_t nth = 0);

struct PngForm {
  bool interlaced = false;
  /// Chunks before the pixels', whole (see `png_chunk`).
  std::string chunks = {};
};
/// 1 to 4 channels: grey, grey with alpha, RGB, RGB with alpha.
std::string written_png(const Picture& picture, const PngForm& form = {});
/// Length, name, content, CRC.
std::string png_chunk(std::string_view name, std::string_view content);
/// With another size in its header.
std::string with_png_size(std::string_view png, uint32_t height, uint32_t width);

/// EXIF data (TIFF) with an orientation and other tags.
std::string exif_data(int orientation, bool little_endian = true);

}  // namespace millrace::test

#include "tests/support/encoded_pictures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include <jpeglib.h>
#include <zlib.h>

#include "tests/support/packed.h"

namespace millrace::test {
namespace {

std::string big_endian(uint64_t value, int size) {
  std::string bytes;
  for (int i = size - 1; i >= 0; --i) bytes += static_cast<char>(value >> 8 * i);
  return bytes;
}

std::string png_of(uint32_t height, uint32_t width, int color, bool interlaced, std::string_view chunks,
                   std::string_view packed_rows) {
  std::string png = "\x89PNG\r\n\x1a\n";
  const std::string header = big_endian(width, 4) + big_endian(height, 4) + '\x08' + static_cast<char>(color) +
                             std::string(2, '\0') + static_cast<char>(interlaced);
  return png + png_chunk("IHDR", header) + std::string(chunks) + png_chunk("IDAT", packed_rows) + png_chunk("IEND", "");
}

// Rows `top`, `top + row_step`, … of the columns `left`, `left + column_step`, …, with each filter of rows that needs
// no row before it.
std::string filtered_rows(const Picture& picture, int top, int left, int row_step, int column_step) {
  std::string rows;
  for (int row = top; left < picture.width && row < picture.height; row += row_step) {
    const bool subtracts = row % 2 == 1;
    rows += static_cast<char>(subtracts);
    std::array<uint8_t, 4> before{};
    for (int column = left; column < picture.width; column += column_step) {
      for (int channel = 0; channel < picture.channels; ++channel) {
        const uint8_t value = picture.pixels[(row * picture.width + column) * picture.channels + channel];
        rows += static_cast<char>(value - (subtracts ? before[channel] : 0));
        before[channel] = value;
      }
    }
  }
  return rows;
}

}  // namespace

Picture drawn_picture(int height, int width, int channels, unsigned seed) {
  Picture picture{height, width, channels};
  uint32_t state = seed;
  for (int row = 0; row < height; ++row) {
    for (int column = 0; column < width; ++column) {
      for (int channel = 0; channel < channels; ++channel) {
        state = state * 1664525 + 1013904223;
        const double noise = static_cast<double>(state >> 24) / 8 - 16;
        const double wave = 70 * std::sin(column / (2.5 + channel) + seed) * std::cos(row / 3.5 + channel);
        const double edge = column * (1 + channel) > row * 2 ? 40 : -40;
        picture.pixels.push_back(
            static_cast<uint8_t>(std::clamp(128 + wave + edge + noise + (row - column) / 4.0, 0.0, 255.0)));
      }
    }
  }
  return picture;
}

std::vector<uint8_t> pixels_of(const Picture& picture, int top, int left, int height, int width) {
  std::vector<uint8_t> pixels;
  for (int row = top; row < top + height; ++row) {
    const auto begin = picture.pixels.begin() + (row * picture.width + left) * picture.channels;
    pixels.insert(pixels.end(), begin, begin + width * picture.channels);
  }
  return pixels;
}

std::string written_jpeg(const Picture& picture, const JpegForm& form) {
  jpeg_error_mgr errors;
  jpeg_compress_struct jpeg;
  jpeg.err = jpeg_std_error(&errors);  // which ends the program
  jpeg_create_compress(&jpeg);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &bytes, &size);
  jpeg.image_height = static_cast<JDIMENSION>(picture.height);
  jpeg.image_width = static_cast<JDIMENSION>(picture.width);
  jpeg.input_components = picture.channels;
  jpeg.in_color_space = picture.channels == 1 ? JCS_GRAYSCALE : picture.channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, form.quality, TRUE);
  jpeg.comp_info[0].h_samp_factor = form.horizontal_sampling;
  jpeg.comp_info[0].v_samp_factor = form.vertical_sampling;
  jpeg.optimize_coding = form.optimized_tables;
  jpeg.arith_code = form.arithmetic;
  jpeg.restart_interval = static_cast<unsigned>(form.restart_interval);
  std::array<jpeg_scan_info, 4> scans{};
  if (form.scan_for_each_component) {
    for (int component = 0; component < picture.channels; ++component) {
      scans[component] = {.comps_in_scan = 1, .component_index = {component}, .Ss = 0, .Se = 63, .Ah = 0, .Al = 0};
    }
    jpeg.scan_info = scans.data();
    jpeg.num_scans = picture.channels;
  }
  if (form.progressive) jpeg_simple_progression(&jpeg);
  jpeg_start_compress(&jpeg, TRUE);
  while (jpeg.next_scanline < jpeg.image_height) {
    auto* row =
        const_cast<JSAMPROW>(picture.pixels.data()) + size_t{jpeg.next_scanline} * picture.width * picture.channels;
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  std::string written(reinterpret_cast<char*>(bytes), size);
  std::free(bytes);
  return written;
}

std::string with_segment(std::string_view jpeg, uint8_t marker, std::string_view content) {
  std::string with(jpeg.substr(0, 2));
  with += '\xff';
  with += static_cast<char>(marker);
  with += big_endian(content.size() + 2, 2);
  with += content;
  return with += jpeg.substr(2);
}

size_t place_of_marker(std::string_view jpeg, uint8_t marker, size_t nth) {
  const std::array<char, 2> sought = {'\xff', static_cast<char>(marker)};
  size_t place = jpeg.find({sought.data(), 2});
  while (nth-- > 0 && place != std::string_view::npos) place = jpeg.find({sought.data(), 2}, place + 2);
  return place;
}

std::string png_chunk(std::string_view name, std::string_view content) {
  std::string checked(name);
  checked += content;
  const uLong crc = crc32(0, reinterpret_cast<const Bytef*>(checked.data()), static_cast<uInt>(checked.size()));
  return big_endian(content.size(), 4) + checked + big_endian(crc, 4);
}

std::string written_png(const Picture& picture, const PngForm& form) {
  constexpr std::array<std::array<int, 4>, 7> kPasses = {
      {{0, 0, 8, 8}, {0, 4, 8, 8}, {4, 0, 8, 4}, {0, 2, 4, 4}, {2, 0, 4, 2}, {0, 1, 2, 2}, {1, 0, 2, 1}}};
  constexpr std::array<int, 5> kColors = {0, 0, 4, 2, 6};
  std::string rows;
  if (form.interlaced) {
    for (const auto& [top, left, row_step, column_step] : kPasses) {
      rows += filtered_rows(picture, top, left, row_step, column_step);
    }
  } else {
    rows = filtered_rows(picture, 0, 0, 1, 1);
  }
  return png_of(static_cast<uint32_t>(picture.height), static_cast<uint32_t>(picture.width), kColors[picture.channels],
                form.interlaced, form.chunks, packed(rows, Compression::kZlib));
}

std::string with_png_size(std::string_view png, uint32_t height, uint32_t width) {
  constexpr size_t kHeader = 8;
  constexpr size_t kHeaderEnd = 33;
  const std::string_view after_size = png.substr(24, 5);
  return std::string(png.substr(0, kHeader)) +
         png_chunk("IHDR", big_endian(width, 4) + big_endian(height, 4) + std::string(after_size)) +
         std::string(png.substr(kHeaderEnd));
}

std::string exif_data(int orientation, bool little_endian) {
  const auto number = [&](uint64_t value, int size) {
    std::string bytes = big_endian(value, size);
    if (little_endian) std::reverse(bytes.begin(), bytes.end());
    return bytes;
  };
  constexpr int kShort = 3;
  std::string exif = (little_endian ? "II" : "MM") + number(42, 2) + number(8, 4) + number(2, 2);
  exif += number(0x0100, 2) + number(kShort, 2) + number(1, 4) + number(77, 2) + number(0, 2);
  exif += number(0x0112, 2) + number(kShort, 2) + number(1, 4) + number(static_cast<uint64_t>(orientation), 2) +
          number(0, 2);
  return exif + number(0, 4);
}

}  // namespace millrace::test

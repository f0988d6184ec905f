#include "millrace/formats/image/jpeg_reader.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>  // jpeglib.h needs it
#include <cstring>
#include <vector>

#include <jerror.h>
#include <jpeglib.h>

#include "millrace/formats/image/jpeg_markers.h"
#include "millrace/formats/image/library_calls.h"

namespace millrace {
namespace {

constexpr int kCmykComponents = 4;

// Of warnings: nothing of the pixels is wrong.
bool is_harmless(int message) {
  return message == JWRN_EXTRANEOUS_DATA || message == JWRN_NOT_SEQUENTIAL || message == JWRN_ADOBE_XFORM ||
         message == JWRN_JFIF_MAJOR || message == JWRN_BOGUS_ICC;
}

// As TensorFlow converts: no profile, and what Adobe writes is inverted.
void convert_cmyk(const uint8_t* cmyk, int64_t num_pixels, bool inverted, int channels, uint8_t* out) {
  const int flip = inverted ? 0 : 255;
  for (int64_t i = 0; i < num_pixels; ++i, cmyk += kCmykComponents, out += channels) {
    const int black = cmyk[3] ^ flip;
    const int red = black * (cmyk[0] ^ flip) / 255;
    const int green = black * (cmyk[1] ^ flip) / 255;
    const int blue = black * (cmyk[2] ^ flip) / 255;
    if (channels == 1) {
      out[0] = grey_of(red, green, blue);
      continue;
    }
    out[0] = static_cast<uint8_t>(red);
    out[1] = static_cast<uint8_t>(green);
    out[2] = static_cast<uint8_t>(blue);
    if (channels == 4) out[3] = 255;
  }
}

class JpegReader final : public PictureReader {
 public:
  JpegReader();
  ~JpegReader() override { jpeg_destroy_decompress(&jpeg_); }

  ImageInfo start(std::string_view bytes, const ImageLimits& limits) override;
  void read(const ImageRegion& region, const PixelForm& form, std::span<uint8_t> pixels) override;

 private:
  // The columns that are decoded, and the row before which all are skipped.
  struct Window {
    int64_t left;
    int64_t width;
    int64_t top;
  };
  // Gives the memory of the picture back, after an error too.
  struct Abort {
    explicit Abort(jpeg_decompress_struct& to_abort) : jpeg(to_abort) {}
    Abort(const Abort&) = delete;
    Abort& operator=(const Abort&) = delete;
    ~Abort() { jpeg_abort_decompress(&jpeg); }
    jpeg_decompress_struct& jpeg;
  };

  void open();
  bool is_smoothed() const;
  bool has_partly_enlarged_component() const;
  Window window_around(const ImageRegion& region) const;
  void read_rows(const ImageRegion& region, int channels, uint8_t* pixels);
  [[noreturn]] void fail_as_cut() {
    calls_.fail_with(ErrorCode::kTruncated, "JPEG is cut after {} bytes", bytes_.size());
  }

  static JpegReader& of(j_common_ptr jpeg) { return *static_cast<JpegReader*>(jpeg->client_data); }
  static void on_error(j_common_ptr jpeg);
  static void on_message(j_common_ptr jpeg, int level);
  static void on_progress(j_common_ptr jpeg);
  static boolean on_end_of_bytes(j_decompress_ptr jpeg);
  static void on_skip(j_decompress_ptr jpeg, long count);

  jpeg_decompress_struct jpeg_{};
  jpeg_error_mgr errors_{};
  jpeg_source_mgr source_{};
  jpeg_progress_mgr progress_{};
  int64_t most_scans_ = 0;
  LibraryCalls calls_;
  std::string_view bytes_;
  bool has_header_only_ = false;  // nothing behind the header was read
  bool may_lack_end_ = false;     // whether libjpeg may see that the bytes end
  bool saw_end_of_bytes_ = false;
  std::vector<uint8_t> row_;
};

JpegReader::JpegReader() {
  jpeg_std_error(&errors_);
  errors_.error_exit = on_error;
  errors_.emit_message = on_message;
  source_.init_source = [](j_decompress_ptr) {};
  source_.fill_input_buffer = on_end_of_bytes;
  source_.skip_input_data = on_skip;
  source_.resync_to_restart = jpeg_resync_to_restart;
  source_.term_source = [](j_decompress_ptr) {};
  progress_.progress_monitor = on_progress;
}

void JpegReader::on_error(j_common_ptr jpeg) {
  if (jpeg->err->msg_code == JERR_OUT_OF_MEMORY) of(jpeg).calls_.fail_for_memory();
  std::array<char, JMSG_LENGTH_MAX> message;
  jpeg->err->format_message(jpeg, message.data());
  of(jpeg).calls_.fail_with(ErrorCode::kParse, "no JPEG that can be decoded: {}", std::string_view(message.data()));
}

void JpegReader::on_message(j_common_ptr jpeg, int level) {
  if (level >= 0 || is_harmless(jpeg->err->msg_code)) return;
  if (of(jpeg).saw_end_of_bytes_) of(jpeg).fail_as_cut();
  std::array<char, JMSG_LENGTH_MAX> message;
  jpeg->err->format_message(jpeg, message.data());
  of(jpeg).calls_.fail_with(ErrorCode::kParse, "damaged JPEG: {}", std::string_view(message.data()));
}

// Counted by libjpeg itself, which may find scans where `count_jpeg_scans` finds none.
void JpegReader::on_progress(j_common_ptr jpeg) {
  auto* const decoder = reinterpret_cast<j_decompress_ptr>(jpeg);
  if (jpeg_has_multiple_scans(decoder) == FALSE || decoder->input_scan_number <= of(jpeg).most_scans_) return;
  of(jpeg).calls_.fail_with(ErrorCode::kOutOfRange, "JPEG has more scans than the limit of {}", of(jpeg).most_scans_);
}

// libjpeg reads ahead, so it may ask for more bytes than it needs. After an end of the picture that is not there it
// warns as soon as it lacks a bit.
boolean JpegReader::on_end_of_bytes(j_decompress_ptr jpeg) {
  static constexpr std::array<JOCTET, 2> kEnd = {0xff, JPEG_EOI};
  JpegReader& reader = of(reinterpret_cast<j_common_ptr>(jpeg));
  if (!reader.may_lack_end_) reader.fail_as_cut();
  reader.saw_end_of_bytes_ = true;
  reader.source_.next_input_byte = kEnd.data();
  reader.source_.bytes_in_buffer = kEnd.size();
  return TRUE;
}

void JpegReader::on_skip(j_decompress_ptr jpeg, long count) {
  JpegReader& reader = of(reinterpret_cast<j_common_ptr>(jpeg));
  if (count <= 0) return;
  if (static_cast<size_t>(count) > reader.source_.bytes_in_buffer) reader.fail_as_cut();
  reader.source_.next_input_byte += count;
  reader.source_.bytes_in_buffer -= static_cast<size_t>(count);
}

// A new decompressor for each picture: it takes microseconds, and an old one would lend its tables to a picture that
// lacks some.
void JpegReader::open() {
  jpeg_destroy_decompress(&jpeg_);
  jpeg_.err = &errors_;
  jpeg_.client_data = this;
  source_.next_input_byte = reinterpret_cast<const JOCTET*>(bytes_.data());
  source_.bytes_in_buffer = bytes_.size();
  has_header_only_ = may_lack_end_ = saw_end_of_bytes_ = false;
  calls_.run([this] {
    jpeg_create_decompress(&jpeg_);
    jpeg_.src = &source_;
    jpeg_.progress = &progress_;
    jpeg_read_header(&jpeg_, TRUE);
  });
  has_header_only_ = true;
}

ImageInfo JpegReader::start(std::string_view bytes, const ImageLimits& limits) {
  bytes_ = bytes;
  open();
  const int64_t height = jpeg_.image_height;
  const int64_t width = jpeg_.image_width;
  check_pixels(height, width, limits);
  if (jpeg_.num_components != 1 && jpeg_.num_components != 3 && jpeg_.num_components != kCmykComponents) {
    throw ErrorException(ErrorCode::kParse,
                         fmt::format("JPEG has {} components; 1, 3 or 4 are read", jpeg_.num_components));
  }
  most_scans_ = std::min(limits.most_scans, limits.most_scanned_pixels / (height * width));
  if (jpeg_has_multiple_scans(&jpeg_)) {
    const int64_t num_scans = count_jpeg_scans(bytes, limits.most_scans);
    if (num_scans > limits.most_scans) {
      throw ErrorException(ErrorCode::kOutOfRange,
                           fmt::format("JPEG has more scans than the limit of {}", limits.most_scans));
    }
    if (num_scans > limits.most_scanned_pixels / (height * width)) {
      throw ErrorException(ErrorCode::kOutOfRange,
                           fmt::format("{} scans of {} × {} pixels are more pixels than the limit of {}", num_scans,
                                       height, width, limits.most_scanned_pixels));
    }
  }
  return {.format = ImageFormat::kJpeg,
          .height = height,
          .width = width,
          .channels = std::min(jpeg_.num_components, 3),
          .orientation = jpeg_orientation(bytes)};
}

// Whether libjpeg makes up what later scans should have told, from the blocks around each block.
bool JpegReader::is_smoothed() const {
  if (!jpeg_.progressive_mode || jpeg_.coef_bits == nullptr) return false;
  for (int component = 0; component < jpeg_.num_components; ++component) {
    const auto& bits = jpeg_.coef_bits[component];
    if (!std::all_of(std::begin(bits), std::end(bits), [](int unknown) { return unknown == 0; })) return true;
  }
  return false;
}

// Whether the inverse transform of a scaled picture enlarges a component, and upsampling has to do the rest (chroma of
// 4:1:0): jpeg_crop_scanline takes it for narrower than it is (libjpeg-turbo 2.1.5).
bool JpegReader::has_partly_enlarged_component() const {
  const int size = jpeg_.min_DCT_scaled_size;
  return std::any_of(jpeg_.comp_info, jpeg_.comp_info + jpeg_.num_components,
                     [&](const jpeg_component_info& component) {
                       return component.DCT_scaled_size > size &&
                              (component.h_samp_factor * component.DCT_scaled_size < jpeg_.max_h_samp_factor * size ||
                               component.v_samp_factor * component.DCT_scaled_size < jpeg_.max_v_samp_factor * size);
                     });
}

// What libjpeg may skip so that the region's pixels are those of the whole picture. Upsampling looks at neighbours and
// takes the edge of a window for the edge of the picture. So there stays
// - on the left a column, with all of the iMCU that it lies in, since libjpeg begins with one;
// - on the right a column;
// - of the width two iMCUs at least, since of very few columns libjpeg looks at no neighbours at all;
// - above an iMCU.
JpegReader::Window JpegReader::window_around(const ImageRegion& region) const {
  if (is_smoothed()) return {0, jpeg_.output_width, 0};
  const int64_t columns = int64_t{jpeg_.max_h_samp_factor} * jpeg_.min_DCT_scaled_size;
  const int64_t rows = int64_t{jpeg_.max_v_samp_factor} * jpeg_.min_DCT_scaled_size;
  const int64_t top = std::max<int64_t>(0, region.top / rows - 1) * rows;
  if (has_partly_enlarged_component()) return {0, jpeg_.output_width, top};
  const int64_t width = jpeg_.output_width;
  const int64_t left = std::max<int64_t>(0, std::min(region.left - 1, width - 2 * columns)) / columns * columns;
  const int64_t right = std::min(width, std::max(region.left + region.width + 1, left + 2 * columns));
  return {left, right - left, top};
}

void JpegReader::read_rows(const ImageRegion& region, int channels, uint8_t* pixels) {
  const bool is_cmyk = jpeg_.out_color_space == JCS_CMYK;
  jpeg_start_decompress(&jpeg_);
  const Window window = window_around(region);
  auto left = static_cast<JDIMENSION>(window.left);
  if (window.width < jpeg_.output_width) {
    auto width = static_cast<JDIMENSION>(window.width);
    jpeg_crop_scanline(&jpeg_, &left, &width);
  }
  if (window.top > 0) jpeg_skip_scanlines(&jpeg_, static_cast<JDIMENSION>(window.top));
  const bool direct = !is_cmyk && jpeg_.output_width == region.width;
  const uint8_t* const wanted = row_.data() + (region.left - left) * jpeg_.output_components;
  const int64_t row_bytes = region.width * channels;
  while (jpeg_.output_scanline < region.top + region.height) {
    const bool is_wanted = jpeg_.output_scanline >= region.top;
    JSAMPROW row = is_wanted && direct ? pixels : row_.data();
    if (jpeg_read_scanlines(&jpeg_, &row, 1) != 1) fail_as_cut();
    if (!is_wanted) continue;
    if (is_cmyk) {
      convert_cmyk(wanted, region.width, jpeg_.saw_Adobe_marker, channels, pixels);
    } else if (!direct) {
      std::memcpy(pixels, wanted, static_cast<size_t>(row_bytes));
    }
    pixels += row_bytes;
  }
}

void JpegReader::read(const ImageRegion& region, const PixelForm& form, std::span<uint8_t> pixels) {
  if (!has_header_only_) open();
  has_header_only_ = false;
  const Abort abort(jpeg_);
  const bool is_cmyk = jpeg_.num_components == kCmykComponents;
  jpeg_.out_color_space = is_cmyk              ? JCS_CMYK
                          : form.channels == 1 ? JCS_GRAYSCALE
                          : form.channels == 3 ? JCS_RGB
                                               : JCS_EXT_RGBA;
  jpeg_.dct_method = JDCT_ISLOW;
  jpeg_.do_fancy_upsampling = TRUE;
  jpeg_.scale_num = 1;
  jpeg_.scale_denom = static_cast<unsigned>(form.scale_denominator);
  may_lack_end_ = !jpeg_has_multiple_scans(&jpeg_) && !jpeg_.arith_code;
  row_.resize(size_t{4} * jpeg_.image_width);
  calls_.run([&] { read_rows(region, form.channels, pixels.data()); });
}

}  // namespace

std::unique_ptr<PictureReader> make_jpeg_reader() { return std::make_unique<JpegReader>(); }

}  // namespace millrace

#include "millrace/formats/image/png_reader.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <png.h>
#include <zlib.h>

#include "millrace/formats/image/library_calls.h"
#include "millrace/formats/image/orientation.h"

namespace millrace {
namespace {

// Chunks that no pixel depends on, five bytes each: they are passed over, so nothing is unpacked or kept for them.
constexpr char kUnusedChunks[] = "bKGD\0eXIf\0hIST\0iTXt\0oFFs\0pCAL\0pHYs\0sBIT\0sCAL\0sPLT\0tEXt\0tIME\0zTXt";
constexpr size_t kChunkNameBytes = 5;
constexpr int kMostKeptChunks = 100;
constexpr png_alloc_size_t kMostUnpackedChunkBytes = 8 << 20;  // of a colour profile

// EXIF data of a picture whose header has been read. It may stand behind the pixels, where libpng would say so after
// them, too late for what is cropped.
int orientation_of(std::string_view png) {
  const auto number_at = [&](size_t place) { return png_get_uint_32(reinterpret_cast<png_const_bytep>(&png[place])); };
  constexpr size_t kSignatureBytes = 8;
  constexpr size_t kAroundContent = 12;  // length and name before it, its CRC behind it
  for (size_t place = kSignatureBytes; png.size() - place >= kAroundContent;) {
    const size_t size = number_at(place);
    if (size > png.size() - place - kAroundContent) break;
    const std::string_view chunk = png.substr(place + 4, 4 + size);
    place += kAroundContent + size;
    if (chunk.starts_with("IEND")) break;
    if (!chunk.starts_with("eXIf")) continue;
    const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(chunk.data()), chunk.size());
    if (crc == number_at(place - 4)) return exif_orientation(chunk.substr(4));
  }
  return 1;
}

// Of one pixel of `channels` values the last of which is alpha.
void lay_over(const uint8_t* pixels, int64_t num_pixels, int channels, const std::array<uint8_t, 3>& background,
              uint8_t* out) {
  const int colors = channels - 1;
  for (int64_t i = 0; i < num_pixels; ++i, pixels += channels, out += colors) {
    const int alpha = pixels[colors];
    for (int c = 0; c < colors; ++c) {
      const int below = colors == 1 ? grey_of(background[0], background[1], background[2]) : background[c];
      out[c] = static_cast<uint8_t>((alpha * pixels[c] + (255 - alpha) * below + 127) / 255);
    }
  }
}

class PngReader final : public PictureReader {
 public:
  PngReader() = default;
  ~PngReader() override { close(); }

  ImageInfo start(std::string_view bytes, const ImageLimits& limits) override;
  void read(const ImageRegion& region, const PixelForm& form, std::span<uint8_t> pixels) override;

 private:
  void open();
  void close() { png_destroy_read_struct(&png_, &info_, nullptr); }
  bool has_alpha() const { return (png_get_color_type(png_, info_) & PNG_COLOR_MASK_ALPHA) != 0; }
  bool has_transparent_color() const { return png_get_valid(png_, info_, PNG_INFO_tRNS) != 0; }
  void set_transformations(int channels);
  void read_rows(const ImageRegion& region, const PixelForm& form, int channels, uint8_t* pixels);

  static PngReader& of(png_structp png) { return *static_cast<PngReader*>(png_get_error_ptr(png)); }
  [[noreturn]] static void on_error(png_structp png, png_const_charp message);
  static void on_read(png_structp png, png_bytep bytes, size_t count);
  static png_voidp on_allocate(png_structp png, png_alloc_size_t size);

  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  LibraryCalls calls_;
  std::string_view bytes_;
  size_t place_ = 0;
  bool has_header_only_ = false;
  bool lacks_memory_ = false;
  std::vector<uint8_t> rows_;
};

void PngReader::on_error(png_structp png, png_const_charp message) {
  PngReader& reader = of(png);
  if (reader.lacks_memory_) reader.calls_.fail_for_memory();
  reader.calls_.fail_with(ErrorCode::kParse, "no PNG that can be decoded: {}", std::string_view(message));
}

void PngReader::on_read(png_structp png, png_bytep bytes, size_t count) {
  PngReader& reader = of(png);
  if (count > reader.bytes_.size() - reader.place_) {
    reader.calls_.fail_with(ErrorCode::kTruncated, "PNG is cut after {} bytes", reader.bytes_.size());
  }
  std::memcpy(bytes, reader.bytes_.data() + reader.place_, count);
  reader.place_ += count;
}

png_voidp PngReader::on_allocate(png_structp png, png_alloc_size_t size) {
  void* const memory = std::malloc(size);
  if (memory == nullptr) static_cast<PngReader*>(png_get_mem_ptr(png))->lacks_memory_ = true;
  return memory;
}

void PngReader::open() {
  close();
  place_ = 0;
  has_header_only_ = lacks_memory_ = false;
  calls_.run([this] {
    png_ = png_create_read_struct_2(
        PNG_LIBPNG_VER_STRING, this, on_error, [](png_structp, png_const_charp) {}, this, on_allocate,
        [](png_structp, png_voidp memory) { std::free(memory); });
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) calls_.fail_for_memory();
    png_set_read_fn(png_, this, on_read);
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // check_pixels has another limit
    png_set_chunk_malloc_max(png_, kMostUnpackedChunkBytes);
    png_set_chunk_cache_max(png_, kMostKeptChunks);
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, reinterpret_cast<png_const_bytep>(kUnusedChunks),
                                sizeof(kUnusedChunks) / kChunkNameBytes);
    png_read_info(png_, info_);
  });
  has_header_only_ = true;
}

ImageInfo PngReader::start(std::string_view bytes, const ImageLimits& limits) {
  bytes_ = bytes;
  open();
  ImageInfo info{.format = ImageFormat::kPng,
                 .height = png_get_image_height(png_, info_),
                 .width = png_get_image_width(png_, info_),
                 .channels = png_get_channels(png_, info_),
                 .orientation = orientation_of(bytes)};
  check_pixels(info.height, info.width, limits);
  if (png_get_color_type(png_, info_) == PNG_COLOR_TYPE_PALETTE) info.channels = has_transparent_color() ? 4 : 3;
  return info;
}

// As TensorFlow does (tensorflow/core/lib/png/png_io.cc).
void PngReader::set_transformations(int channels) {
  const int depth = png_get_bit_depth(png_, info_);
  const bool is_grey = (png_get_color_type(png_, info_) & PNG_COLOR_MASK_COLOR) == 0;
  if (depth > 8) png_set_strip_16(png_);
  png_set_expand(png_);  // palettes to colours, grey to 8 bits, a transparent colour to alpha
  if (channels % 2 == 1) {
    png_set_strip_alpha(png_);
  } else if (!has_alpha() && !has_transparent_color()) {
    png_set_add_alpha(png_, 0xffff, PNG_FILLER_AFTER);
  }
  constexpr int kSilently = 1;
  constexpr png_fixed_point kRed = 29900;
  constexpr png_fixed_point kGreen = 58700;
  if (channels < 3 && !is_grey) png_set_rgb_to_gray_fixed(png_, kSilently, kRed, kGreen);
  if (channels >= 3 && is_grey) png_set_gray_to_rgb(png_);
}

void PngReader::read_rows(const ImageRegion& region, const PixelForm& form, int channels, uint8_t* pixels) {
  const bool is_interlaced = png_get_interlace_type(png_, info_) != PNG_INTERLACE_NONE;
  const int num_passes = png_set_interlace_handling(png_);
  set_transformations(channels);
  png_read_update_info(png_, info_);
  const auto stored_row_bytes = static_cast<int64_t>(png_get_rowbytes(png_, info_));
  if (stored_row_bytes != int64_t{png_get_image_width(png_, info_)} * channels) {
    calls_.fail(ErrorCode::kParse, "no PNG that can be decoded: its rows have another length than its header says");
  }
  const int64_t bottom = region.top + region.height;
  const bool direct = channels == form.channels && region.width == png_get_image_width(png_, info_);
  const int64_t row_bytes = region.width * form.channels;
  for (int pass = 0; pass < num_passes; ++pass) {
    const bool is_last = pass == num_passes - 1;
    const int64_t num_rows = is_last ? bottom : png_get_image_height(png_, info_);
    for (int64_t row = 0; row < num_rows; ++row) {
      // Passes fill the rows of the region; what they say of other rows is dropped.
      const bool is_wanted = row >= region.top && row < bottom;
      const int64_t place = is_wanted && is_interlaced ? 1 + row - region.top : 0;
      uint8_t* const out = pixels + (row - region.top) * row_bytes;
      uint8_t* const stored = is_wanted && direct ? out : rows_.data() + place * stored_row_bytes;
      png_read_row(png_, stored, nullptr);
      if (!is_wanted || !is_last || direct) continue;
      const uint8_t* const wanted = stored + region.left * channels;
      if (channels == form.channels) {
        std::memcpy(out, wanted, static_cast<size_t>(row_bytes));
      } else {
        lay_over(wanted, region.width, channels, *form.background, out);
      }
    }
  }
  if (bottom == png_get_image_height(png_, info_)) png_read_end(png_, nullptr);
}

void PngReader::read(const ImageRegion& region, const PixelForm& form, std::span<uint8_t> pixels) {
  if (!has_header_only_) open();
  has_header_only_ = false;
  const bool lays_over = form.background && (has_alpha() || has_transparent_color());
  const int channels = lays_over ? form.channels + 1 : form.channels;
  const bool is_interlaced = png_get_interlace_type(png_, info_) != PNG_INTERLACE_NONE;
  const int64_t num_rows = is_interlaced ? 1 + region.height : 1;
  rows_.resize(static_cast<size_t>(num_rows * png_get_image_width(png_, info_) * channels));
  calls_.run([&] { read_rows(region, form, channels, pixels.data()); });
}

}  // namespace

std::unique_ptr<PictureReader> make_png_reader() { return std::make_unique<PngReader>(); }

}  // namespace millrace

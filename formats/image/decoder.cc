#include "millrace/formats/image/decoder.h"

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/image/jpeg_reader.h"
#include "millrace/formats/image/orientation.h"
#include "millrace/formats/image/picture_reader.h"
#include "millrace/formats/image/png_reader.h"
#include "millrace/formats/image/recognition.h"

namespace millrace {
namespace {

void check_scale(int denominator) {
  if (denominator != 1 && denominator != 2 && denominator != 4 && denominator != 8) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("scale_denominator is {}; it is 1, 2, 4 or 8", denominator));
  }
}

void check_options(const DecodeOptions& options) {
  if (options.channels != 0 && options.channels != 1 && options.channels != 3 && options.channels != 4) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("channels is {}; it is 0, 1, 3 or 4", options.channels));
  }
  if (options.channels == 4 && options.background) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         "channels is 4 and there is a background: what is laid over a background has no alpha");
  }
  check_scale(options.scale_denominator);
}

}  // namespace

ImageDecoder::ImageDecoder() = default;
ImageDecoder::~ImageDecoder() = default;
ImageDecoder::ImageDecoder(ImageDecoder&&) noexcept = default;
ImageDecoder& ImageDecoder::operator=(ImageDecoder&&) noexcept = default;

const ImageInfo& ImageDecoder::start(std::string_view bytes, const DecodeOptions& options) {
  check_options(options);
  reader_ = nullptr;
  options_ = options;
  const ImageFormat format = recognize_image(bytes);
  std::unique_ptr<PictureReader>& reader = format == ImageFormat::kJpeg ? jpeg_ : png_;
  if (reader == nullptr) reader = format == ImageFormat::kJpeg ? make_jpeg_reader() : make_png_reader();
  info_ = reader->start(bytes, options.limits);
  reader_ = reader.get();
  channels_ = options.channels;
  if (channels_ == 0) channels_ = options.background ? info_.channels - (info_.channels + 1) % 2 : info_.channels;
  set_size();
  return info_;
}

void ImageDecoder::set_scale_denominator(int denominator) {
  check_scale(denominator);
  options_.scale_denominator = denominator;
  set_size();
}

void ImageDecoder::set_size() {
  const int scale = info_.format == ImageFormat::kJpeg ? options_.scale_denominator : 1;
  height_ = (info_.height + scale - 1) / scale;
  width_ = (info_.width + scale - 1) / scale;
  if (options_.applies_orientation && is_transposed(info_.orientation)) std::swap(height_, width_);
}

void ImageDecoder::decode(const ImageRegion& region, std::span<uint8_t> pixels) {
  if (reader_ == nullptr) throw ErrorException(ErrorCode::kInvalidArgument, "decode without a picture: call start");
  if (region.top < 0 || region.left < 0 || region.height <= 0 || region.width <= 0 ||
      region.height > height_ - region.top || region.width > width_ - region.left) {
    throw ErrorException(
        ErrorCode::kInvalidArgument,
        fmt::format("the region of {} × {} pixels at row {}, column {} is no part of a picture of {} × {}",
                    region.height, region.width, region.top, region.left, height_, width_));
  }
  const auto num_bytes = static_cast<size_t>(region.height * region.width * channels_);
  if (pixels.size() != num_bytes) {
    throw ErrorException(
        ErrorCode::kInvalidArgument,
        fmt::format("the region has {} bytes of pixels, and there is room for {}", num_bytes, pixels.size()));
  }
  const PixelForm form{channels_, options_.background, options_.scale_denominator};
  if (!options_.applies_orientation || info_.orientation == 1) {
    reader_->read(region, form, pixels);
    return;
  }
  const ImageRegion stored = stored_region(region, height_, width_, info_.orientation);
  stored_pixels_.resize(num_bytes);
  reader_->read(stored, form, stored_pixels_);
  turn_pixels(stored_pixels_, stored.height, stored.width, channels_, info_.orientation, pixels);
}

ImageInfo read_image_info(std::string_view bytes, const ImageLimits& limits) {
  return ImageDecoder().start(bytes, {.limits = limits});
}

}  // namespace millrace

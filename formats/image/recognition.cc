#include "millrace/formats/image/recognition.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/formats/error.h"
#include "millrace/formats/image/picture_reader.h"

namespace millrace {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::string_view kJpegSignature = "\xff\xd8\xff";
constexpr std::string_view kPngSignature = "\x89PNG\r\n\x1a\n";

struct ImageSignature {
  std::string_view bytes;
  size_t offset;
  std::string_view name;
};
constexpr std::array kOtherFormats = {
    ImageSignature{"GIF8"sv, 0, "GIF"},
    ImageSignature{"WEBP"sv, 8, "WebP"},
    ImageSignature{"BM"sv, 0, "BMP"},
    ImageSignature{"II*\0"sv, 0, "TIFF"},
    ImageSignature{"MM\0*"sv, 0, "TIFF"},
    ImageSignature{"ftypavi"sv, 4, "AVIF"},
    ImageSignature{"ftyphei"sv, 4, "HEIC"},
    ImageSignature{"ftypmif"sv, 4, "HEIC or AVIF"},
    ImageSignature{"\xff\x0a"sv, 0, "JPEG XL"},
    ImageSignature{"\0\0\0\x0cJXL "sv, 0, "JPEG XL"},
    ImageSignature{"\0\0\0\x0cjP  "sv, 0, "JPEG 2000"},
};
constexpr size_t kMostShownBytes = 8;

bool is_cut_signature(std::string_view bytes, std::string_view signature) {
  return bytes.size() < signature.size() && signature.starts_with(bytes);
}

}  // namespace

std::string_view to_string(ImageFormat format) { return format == ImageFormat::kJpeg ? "JPEG" : "PNG"; }

ImageFormat recognize_image(std::string_view bytes) {
  if (bytes.starts_with(kJpegSignature)) return ImageFormat::kJpeg;
  if (bytes.starts_with(kPngSignature)) return ImageFormat::kPng;
  if (bytes.empty()) throw ErrorException(ErrorCode::kTruncated, "no JPEG or PNG: there are no bytes");
  if (is_cut_signature(bytes, kJpegSignature) || is_cut_signature(bytes, kPngSignature)) {
    throw ErrorException(
        ErrorCode::kTruncated,
        fmt::format("{} is cut after {} bytes", bytes[0] == kPngSignature[0] ? "PNG" : "JPEG", bytes.size()));
  }
  for (const ImageSignature& signature : kOtherFormats) {
    if (bytes.size() > signature.offset && bytes.substr(signature.offset).starts_with(signature.bytes)) {
      throw ErrorException(ErrorCode::kParse, fmt::format("the picture is {}; JPEG and PNG are read", signature.name));
    }
  }
  std::array<unsigned, kMostShownBytes> shown{};
  const size_t num_shown = std::min(bytes.size(), kMostShownBytes);
  std::ranges::copy(bytes.substr(0, num_shown), shown.begin());
  for (unsigned& byte : shown) byte &= 0xff;
  throw ErrorException(
      ErrorCode::kParse,
      fmt::format("neither JPEG nor PNG: it begins with {:02x}",
                  fmt::join(shown.begin(), shown.begin() + static_cast<std::ptrdiff_t>(num_shown), " ")));
}

void check_pixels(int64_t height, int64_t width, const ImageLimits& limits) {
  if (width > 0 && height > limits.most_pixels / width) {
    throw ErrorException(ErrorCode::kOutOfRange, fmt::format("{} × {} pixels are more than the limit of {}", height,
                                                             width, limits.most_pixels));
  }
}

}  // namespace millrace

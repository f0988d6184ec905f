#include "tests/fuzz/image_fuzz.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "millrace/formats/error.h"
#include "millrace/formats/image/decoder.h"
#include "millrace/formats/image/jpeg_markers.h"
#include "millrace/formats/image/orientation.h"
#include "tests/fuzz/fuzz_error.h"

namespace millrace::test {
namespace {

// Nothing where it is refused.
std::optional<std::vector<uint8_t>> decode_region(ImageDecoder& decoder, const ImageRegion& region) {
  std::vector<uint8_t> pixels(static_cast<size_t>(region.height * region.width * decoder.channels()));
  try {
    decoder.decode(region, pixels);
  } catch (const ErrorException& exception) {
    require_refusal(exception, {ErrorCode::kParse, ErrorCode::kTruncated});
    return std::nullopt;
  }
  return pixels;
}

void require_part(const std::vector<uint8_t>& whole, int64_t width, int channels, const ImageRegion& region,
                  const std::vector<uint8_t>& part) {
  const auto row_bytes = static_cast<size_t>(region.width * channels);
  for (int64_t row = 0; row < region.height; ++row) {
    const uint8_t* const expected = whole.data() + ((region.top + row) * width + region.left) * channels;
    require(std::equal(expected, expected + row_bytes, part.data() + static_cast<size_t>(row) * row_bytes));
  }
}

}  // namespace

void fuzz_image(std::string_view bytes) {
  const int orientation = exif_orientation(bytes);
  require(orientation >= 1 && orientation <= 8);
  require(count_jpeg_scans(bytes, 20) <= 21);
  const ImageLimits limits{.most_pixels = 1 << 14, .most_scans = 30, .most_scanned_pixels = 1 << 17};
  const size_t choice = bytes.size();  // which varies with the input
  const DecodeOptions forms[] = {
      {.limits = limits},
      {.channels = 1, .background = {{20, 130, 240}}, .limits = limits},
      {.channels = 3, .applies_orientation = true, .scale_denominator = 1 << choice % 4, .limits = limits},
      {.channels = 4, .limits = limits}};
  ImageDecoder decoder;
  for (const DecodeOptions& form : forms) {
    try {
      decoder.start(bytes, form);
    } catch (const ErrorException& exception) {
      require_refusal(exception, {ErrorCode::kParse, ErrorCode::kTruncated, ErrorCode::kOutOfRange});
      return;
    }
    const int64_t height = decoder.height();
    const int64_t width = decoder.width();
    ImageRegion region{static_cast<int64_t>(choice) % height, static_cast<int64_t>(choice / 7) % width, 1, 1};
    region.height = 1 + static_cast<int64_t>(choice / 3) % (height - region.top);
    region.width = 1 + static_cast<int64_t>(choice / 5) % (width - region.left);
    const auto part = decode_region(decoder, region);
    const auto whole = decode_region(decoder, decoder.whole());
    require(whole == decode_region(decoder, decoder.whole()));
    if (!whole) continue;
    require(part.has_value());
    require_part(*whole, width, decoder.channels(), region, *part);
  }
}

}  // namespace millrace::test

#include "millrace/formats/image/jpeg_markers.h"

#include <algorithm>

#include "millrace/formats/image/orientation.h"

namespace millrace {
namespace {

constexpr uint8_t kEndOfImage = 0xd9;

// Also of the zero that follows the byte 0xff in the data of a scan.
bool has_no_content(uint8_t marker) { return marker <= 0x01 || (marker >= 0xd0 && marker <= 0xd8); }

}  // namespace

std::optional<JpegMarkers::Segment> JpegMarkers::next() {
  for (;;) {
    place_ = bytes_.find('\xff', place_);
    if (place_ == std::string_view::npos) break;
    place_ = bytes_.find_first_not_of('\xff', place_);  // a marker may have any number before it
    if (place_ == std::string_view::npos) break;
    const auto marker = static_cast<uint8_t>(bytes_[place_++]);
    if (has_no_content(marker)) continue;
    if (marker == kEndOfImage || bytes_.size() - place_ < 2) break;
    const size_t length = static_cast<size_t>(static_cast<uint8_t>(bytes_[place_])) << 8 |
                          static_cast<uint8_t>(bytes_[place_ + 1]);  // with these two bytes
    if (length > bytes_.size() - place_) break;
    const size_t taken = std::max<size_t>(length, 2);  // libjpeg passes over segments that are too short
    const std::string_view content = bytes_.substr(place_ + 2, taken - 2);
    place_ += taken;
    return Segment{marker, content};
  }
  place_ = bytes_.size();
  return std::nullopt;
}

int jpeg_orientation(std::string_view bytes) {
  constexpr std::string_view kExif("Exif\0\0", 6);
  JpegMarkers markers(bytes);
  while (const std::optional<JpegMarkers::Segment> segment = markers.next()) {
    if (segment->marker == JpegMarkers::kStartOfScan) break;
    if (segment->marker != JpegMarkers::kApplication1 || !segment->content.starts_with(kExif)) continue;
    return exif_orientation(segment->content.substr(kExif.size()));
  }
  return 1;
}

int64_t count_jpeg_scans(std::string_view bytes, int64_t most) {
  JpegMarkers markers(bytes);
  int64_t count = 0;
  while (const std::optional<JpegMarkers::Segment> segment = markers.next()) {
    if (segment->marker == JpegMarkers::kStartOfScan && ++count > most) break;
  }
  return count;
}

}  // namespace millrace
